//! Stops and restarts under load.

use crate::app::BOTH;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::Setup;
use crate::words::tally;
use cabrank_checks_harness::http::{Client, describe};
use cabrank_checks_harness::{Signal, until};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// No request is refused because others wait.
const QUEUE: &str = "--max-request-queue-size=0";

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault {
            name: "graceful stop",
            about: "the server stops while 200 clients wait for their answers",
            cost: "new connections are refused",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup { options: &[QUEUE], ..Setup::default() },
            plant: stop,
        },
        Fault {
            name: "restart",
            about: "all processes are replaced at once, while 16 more clients ask",
            cost: "the time of a boot",
            apps: BOTH,
            quick: true,
            peers: false,
            setup: Setup { options: &[QUEUE, "--no-rolling-restarts"], ..Setup::default() },
            plant: restart,
        },
        Fault {
            name: "rolling restart",
            about: "the processes are replaced one by one, while 16 more clients ask",
            cost: "a process more",
            apps: BOTH,
            quick: true,
            peers: false,
            setup: Setup { options: &[QUEUE, "--rolling-restarts"], ..Setup::default() },
            plant: restart,
        },
    ]
}

fn stop(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..200 {
        let mut client =
            Client::with_patience(scene.server.address, PATIENCE).map_err(|e| e.to_string())?;
        client.ask("/sleep/0.02").map_err(|e| e.to_string())?;
        all.push(client);
    }
    scene.healthy.may_end();
    scene.server.signal(Signal::TERM);
    let seen: Vec<_> = all
        .iter_mut()
        .map(|client| match client.reply("GET") {
            Ok(reply) => reply.status.to_string(),
            Err(error) => describe(&error),
        })
        .collect();
    let ended = until(PATIENCE, || scene.server.has_ended().is_some());
    Ok(Seen::new(tally(&seen))
        .wrong_if(seen.iter().any(|s| s != "200"), format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!ended, "the server does not end"))
}

fn restart(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let (to, done) = (scene.server.address, AtomicBool::new(false));
    let (times, pause) = if scene.is_quick { (1, 2) } else { (3, 3) };
    let ask = || {
        let mut seen = Vec::new();
        let mut kept: Option<Client> = None;
        while !done.load(SeqCst) {
            let client = kept.take().map_or_else(|| Client::with_patience(to, PATIENCE), Ok);
            match client.and_then(|mut client| client.get("/").map(|reply| (client, reply))) {
                Ok((client, reply)) => {
                    seen.push(reply.status.to_string());
                    kept = (!reply.closes()).then_some(client);
                }
                Err(error) => seen.push(describe(&error)),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        seen
    };
    let before = scene.server.some_pid()?;
    let (seen, failed): (Vec<String>, _) = std::thread::scope(|scope| {
        let all: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
        let mut failed = None;
        for _ in 0..times {
            match scene.server.tool(["restart"]) {
                Ok(out) if out.status.success() => {}
                Ok(out) => failed = Some(String::from_utf8_lossy(&out.stderr).into_owned()),
                Err(error) => failed = Some(error),
            }
            std::thread::sleep(Duration::from_secs(pause));
        }
        done.store(true, SeqCst);
        (all.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect(), failed)
    });
    let replaced = until(PATIENCE, || !scene.server.processes().contains(&before));
    Ok(Seen::new(tally(&seen))
        .wrong_if(seen.iter().any(|s| s != "200"), format!("its own clients saw {}", tally(&seen)))
        .wrong_if(failed.is_some(), failed.unwrap_or_default())
        .wrong_if(!replaced, "a process of before is still there"))
}
