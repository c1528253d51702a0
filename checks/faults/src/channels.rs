//! Preloaders that die or hang, and processes that misuse their channel or leave children behind.

use crate::app::WSGI;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::{PROCESSES, Setup, USER_PROCESSES};
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, describe};
use cabrank_checks_harness::processes::signal;
use cabrank_checks_harness::{Signal, until};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn faults() -> Vec<Fault> {
    let plain = Fault {
        name: "",
        about: "",
        cost: "",
        apps: WSGI,
        quick: true,
        peers: false,
        setup: Setup::default(),
        plant: |_| Ok(Seen::default()),
    };
    let smart = Setup { options: &["--spawn-method=smart"], ..Setup::default() };
    vec![
        Fault {
            name: "preloader killed",
            about: "kill -9 of the preloader and of a process under load, each half second",
            cost: "a boot of another preloader",
            setup: smart,
            plant: kill_preloaders,
            ..plain
        },
        Fault {
            name: "preloader hangs",
            about: "the preloader is stopped, and a process killed",
            cost: "one process fewer for 10 s",
            setup: smart,
            quick: false,
            plant: stop_preloader,
            ..plain
        },
        Fault {
            name: "control channel closed",
            about: "a request shuts down its process's channel to the server",
            cost: "a boot for each, and 502 for a request that reaches the process while it leaves",
            quick: false,
            plant: |scene| Ok(Seen { by_nature: Some("502"), ..ask_often(scene, "/shut")? }),
            ..plain
        },
        Fault {
            name: "garbage on the channel",
            about: "a request prints random bytes and lines of the protocol",
            cost: "log lines",
            plant: |scene| ask_often(scene, "/print"),
            ..plain
        },
        Fault {
            name: "children that outlive",
            about: "a request starts a child, and its process is killed",
            cost: "a boot for each",
            plant: leave_children,
            ..plain
        },
        Fault {
            name: "fork bomb",
            about: "a request forks until its user has 100 processes (RLIMIT_NPROC), and its process is detached",
            cost: "a boot, after the children have ended",
            setup: Setup { limits_processes: true, ..Setup::default() },
            plant: bomb,
            ..plain
        },
    ]
}

/// Returns the pid of the last preloader.
pub(crate) fn preloader(scene: &Scene<'_>) -> Option<u32> {
    let log = scene.server.log();
    let (before, _) = log.rsplit_once(" has loaded the application")?;
    before.rsplit(' ').next()?.parse().ok()
}

fn whole_again(scene: &Scene<'_>) -> bool {
    until(PATIENCE, || scene.server.pool_size() == PROCESSES)
}

fn kill_preloaders(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let end = Instant::now() + scene.seconds(8, 3);
    let (mut killed, mut last) = (0, None);
    while Instant::now() < end {
        let pid = preloader(scene).ok_or("no preloader")?;
        if last != Some(pid) {
            signal(pid, Signal::KILL);
            killed += 1;
            last = Some(pid);
        }
        signal(scene.server.some_pid()?, Signal::KILL);
        std::thread::sleep(Duration::from_millis(500));
    }
    let whole = whole_again(scene);
    Ok(Seen::new(format!("{killed} preloaders killed"))
        .wrong_if(killed < 2, "no second preloader")
        .wrong_if(!whole, "the pool stays smaller"))
}

fn stop_preloader(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let first = preloader(scene).ok_or("no preloader")?;
    signal(first, Signal::STOP);
    signal(scene.server.some_pid()?, Signal::KILL);
    let replaced = until(PATIENCE, || preloader(scene) != Some(first));
    let whole = whole_again(scene);
    Ok(Seen::new("another preloader")
        .wrong_if(!replaced, "the preloader stays")
        .wrong_if(!whole, "the pool stays smaller"))
}

fn ask_often(scene: &mut Scene<'_>, path: &str) -> Result<Seen, String> {
    let number = if scene.is_quick { 5 } else { 20 };
    let seen: Vec<_> =
        (0..number).map(|_| status_of(scene.server.address, path, PATIENCE)).collect();
    let whole = whole_again(scene);
    Ok(Seen::new(tally(&seen))
        .wrong_if(seen.iter().any(|s| s != "200"), format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!whole, "the pool stays smaller"))
}

fn bomb(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let reply =
        Client::with_patience(scene.server.address, PATIENCE).and_then(|mut c| c.get("/bomb"));
    let reply = reply.map_err(|error| describe(&error).to_owned())?;
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    let (pid, children) = text.split_once(' ').ok_or_else(|| format!("/bomb answers {text}"))?;
    let children: usize = children.parse().map_err(|_| text.clone())?;
    let seconds = scene.seconds(5, 2);
    std::thread::sleep(seconds);
    let seen: Vec<_> = (0..10).map(|_| status_of(scene.server.address, "/", PATIENCE)).collect();
    let others = tally(&seen);
    scene.server.tool(["detach", pid])?;
    let gone = until(PATIENCE, || scene.server.processes().len() <= PROCESSES + 2);
    let whole = whole_again(scene);
    Ok(Seen::new(format!("{children} children; meanwhile {others}"))
        .wrong_if(!(1..USER_PROCESSES).contains(&children), "the limit does not hold")
        .wrong_if(others != "10 × 200", format!("others saw {others}"))
        .wrong_if(!gone, "children survive their process")
        .wrong_if(!whole, "the pool stays smaller"))
}

fn leave_children(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let number = if scene.is_quick { 5 } else { 20 };
    for _ in 0..number {
        // The process that started the child must end, not another one: a child may live as long as its process.
        signal(scene.server.pid_from("/child")?, Signal::KILL);
        // A request is repeated once: it fails if the second process is killed, too.
        whole_again(scene);
    }
    let whole = whole_again(scene);
    let gone = until(PATIENCE, || scene.server.processes().len() <= PROCESSES + 2);
    Ok(Seen::new(format!("{number} processes killed"))
        .wrong_if(!gone, "children survive their processes")
        .wrong_if(!whole, "the pool stays smaller"))
}
