//! A clock that somebody sets while the server runs.

use crate::app::BOTH;
use crate::fault::{Fault, Scene, Seen};
use crate::own_clock;
use crate::setup::{PROCESSES, Setup};
use cabrank_checks_harness::until;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(20);
const DAY: i64 = 24 * 60 * 60;

pub(crate) fn faults() -> Vec<Fault> {
    vec![Fault {
        name: "clock set",
        about: "the clock is set two days forth, four days back, and right again",
        cost: "times of the log",
        apps: BOTH,
        quick: true,
        peers: false,
        setup: Setup { own_clock: true, ..Setup::default() },
        plant: set_clock,
    }]
}

/// Returns by how many days the clocks of the application and of the server are before the true one.
fn days(scene: &Scene<'_>) -> Option<(i64, i64)> {
    let reply = scene.server.client().ok()?.get("/time").ok()?;
    let date = Command::new("date").args(["+%s", "-d", reply.header("Date")?]).output().ok()?;
    let mine = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
    let before = |theirs: &str| {
        let theirs: i64 = theirs.trim().parse().ok()?;
        Some((theirs - mine + DAY / 2).div_euclid(DAY))
    };
    Some((before(&reply.text())?, before(&String::from_utf8_lossy(&date.stdout))?))
}

fn set_clock(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let dir = scene.server.app_dir.path().to_owned();
    let pids = |scene: &Scene<'_>| scene.server.pids().map(|mut pids| (pids.sort(), pids).1);
    let before = pids(scene)?;
    let mut wrong = Vec::new();
    for forth in [2, -2, 0] {
        own_clock::set(&dir, forth * DAY).map_err(|e| e.to_string())?;
        std::thread::sleep(scene.seconds(8, 2));
        let seen = days(scene);
        if seen != Some((forth, forth)) {
            wrong.push(format!("the clocks are set by {seen:?} days instead of {forth}"));
        }
    }
    let whole = until(PATIENCE, || scene.server.pool_size() == PROCESSES);
    let kept = pids(scene)? == before;
    let text = format!("{} processes are replaced", if kept { "no" } else { "some" });
    let seen = Seen { wrong, ..Seen::new(text) };
    Ok(seen
        .wrong_if(!kept, "a process is replaced although none has ended")
        .wrong_if(!whole, "the pool stays smaller"))
}
