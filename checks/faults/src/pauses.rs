//! Processes that stand still for a while, and a preloader that dies while it forks.

use crate::app::{BOTH, WSGI};
use crate::channels::preloader;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::{PROCESSES, Setup};
use cabrank_checks_harness::processes::{is_alive, signal};
use cabrank_checks_harness::{Signal, until};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault {
            name: "server paused",
            about: "the server is stopped for 60 s (SIGSTOP), and goes on",
            cost: "requests wait until it goes on",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup::default(),
            plant: pause_server,
        },
        Fault {
            name: "process paused",
            about: "one of three processes is stopped for 60 s (SIGSTOP), and goes on",
            cost: "the requests at that process wait",
            apps: BOTH,
            quick: true,
            peers: false,
            setup: Setup::default(),
            plant: pause_process,
        },
        Fault {
            name: "preloader killed in its fork",
            about: "the preloader is killed while it forks processes in place of killed ones",
            cost: "the time of a boot",
            apps: WSGI,
            quick: true,
            peers: false,
            setup: Setup { options: &["--spawn-method=smart"], ..Setup::default() },
            plant: kill_preloader,
        },
    ]
}

fn is_whole(scene: &Scene<'_>) -> bool {
    until(PATIENCE, || scene.server.pool_size() == PROCESSES)
}

fn pause_server(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let pause = scene.seconds(60, 3);
    scene.server.signal(Signal::STOP);
    std::thread::sleep(pause);
    scene.server.signal(Signal::CONT);
    let whole = is_whole(scene);
    Ok(Seen::new(format!("stopped for {} s", pause.as_secs()))
        .wrong_if(!whole, "the pool stays smaller"))
}

fn pause_process(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let pause = scene.seconds(60, 3);
    let pid = scene.server.some_pid()?;
    signal(pid, Signal::STOP);
    std::thread::sleep(pause);
    signal(pid, Signal::CONT);
    let whole = is_whole(scene);
    Ok(Seen::new(format!("stopped for {} s", pause.as_secs()))
        .wrong_if(!whole, "the pool stays smaller"))
}

fn kill_preloader(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let times = if scene.is_quick { 4 } else { 20 };
    let mut killed = 0;
    for nth in 0..times {
        let preloader = preloader(scene).ok_or("no preloader")?;
        // The pool is never empty: two of three processes go on.
        signal(scene.server.some_pid()?, Signal::KILL);
        // The preloader is at another place of its fork each time.
        std::thread::sleep(Duration::from_millis(nth * 60 / times));
        killed += u32::from(is_alive(preloader));
        signal(preloader, Signal::KILL);
        if !is_whole(scene) {
            return Ok(Seen::new("").wrong_if(true, "the pool stays smaller"));
        }
    }
    Ok(Seen::new(format!("{killed} preloaders killed")).wrong_if(killed < 2, "no second preloader"))
}
