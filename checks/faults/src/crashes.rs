//! Processes that die, hang, or speak nonsense; and a server that is killed.

use crate::app::{App, BOTH, WSGI};
use crate::fault::{Fault, Scene, Seen};
use crate::interpreter::{self, GARBAGE};
use crate::kind::Kind;
use crate::setup::{PROCESSES, Setup};
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, is_silence};
use cabrank_checks_harness::processes::signal;
use cabrank_checks_harness::{Signal, until};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn faults() -> Vec<Fault> {
    let plain = Fault {
        name: "",
        about: "",
        cost: "",
        apps: BOTH,
        quick: true,
        peers: false,
        setup: Setup::default(),
        plant: |_| Ok(Seen::default()),
    };
    vec![
        Fault {
            name: "process killed",
            about: "kill -9 of a process under load, each half second",
            cost: "a boot each, and a second try for its request",
            peers: true,
            plant: kill_processes,
            ..plain
        },
        Fault {
            name: "server killed",
            about: "kill -9 of the server, with a process in an endless loop and one that sleeps",
            cost: "all connections; the processes end, and the next start removes the files",
            plant: kill_server,
            ..plain
        },
        Fault {
            name: "hung process",
            about: "a request never returns",
            cost: "one of three processes, until --max-request-time",
            apps: WSGI,
            peers: true,
            setup: Setup { options: &["--max-request-time=2"], ..Setup::default() },
            plant: hang,
            ..plain
        },
        Fault {
            name: "a page that kills",
            about: "each request of one URL kills its process",
            cost: "a boot for each process that dies: two a request. Node: 502 for requests that share both processes with \
                   the page; a third try would let the page end a third process",
            plant: deadly_page,
            ..plain
        },
        Fault {
            name: "garbage handshake",
            about: "new processes print rubbish, or nothing",
            cost: "one process fewer as long as they do",
            apps: WSGI,
            setup: Setup {
                options: &["--start-timeout=6"],
                own_interpreter: true,
                ..Setup::default()
            },
            quick: false,
            plant: garbage,
            ..plain
        },
        Fault {
            name: "boots long",
            about: "a process is killed, and new processes need 100 s to boot",
            cost: "one process fewer for 100 s",
            apps: WSGI,
            setup: Setup {
                options: &["--start-timeout=150"],
                own_interpreter: true,
                ..Setup::default()
            },
            quick: false,
            plant: boot_long,
            ..plain
        },
        Fault {
            name: "half answers",
            about: "answers break off in the middle",
            cost: "WSGI: a boot for each",
            plant: half,
            ..plain
        },
    ]
}

/// Waits until the pool is whole again. Other servers give no report.
fn whole_again(scene: &Scene<'_>, limit: Duration) -> bool {
    scene.server.kind != Kind::Cabrank || until(limit, || scene.server.pool_size() == PROCESSES)
}

fn kill_processes(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let end = Instant::now() + scene.seconds(8, 3);
    let mut killed = 0;
    while Instant::now() < end {
        signal(scene.server.some_pid()?, Signal::KILL);
        killed += 1;
        std::thread::sleep(Duration::from_millis(500));
    }
    let whole = whole_again(scene, PATIENCE);
    Ok(Seen::new(format!("{killed} processes killed")).wrong_if(!whole, "the pool stays smaller"))
}

fn kill_server(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    let mut busy = Vec::new();
    for path in ["/hang", "/sleep/600"] {
        let mut client = Client::with_patience(to, PATIENCE).map_err(|e| e.to_string())?;
        client.ask(path).map_err(|e| e.to_string())?;
        busy.push(client);
    }
    std::thread::sleep(Duration::from_millis(500));
    scene.healthy.server_is_killed();
    scene.server.signal(Signal::KILL);
    until(PATIENCE, || scene.server.has_ended().is_some());
    let killed = Instant::now();
    let gone = until(Duration::from_secs(10), || scene.server.processes().is_empty());
    let left = scene.server.processes().len();
    let took = killed.elapsed().as_secs_f64();
    for pid in scene.server.processes() {
        signal(pid, Signal::KILL);
    }
    scene.server.start_another(scene.app)?;
    let text = if gone {
        format!("all processes end within {took:.1} s")
    } else {
        format!("{left} processes survive")
    };
    Ok(Seen::new(text).wrong_if(!gone, format!("{left} processes survive the server")))
}

fn hang(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let begun = Instant::now();
    let status = status_of(scene.server.address, "/hang", scene.seconds(10, 6));
    let took = begun.elapsed().as_secs_f64();
    let text = format!("its own client: {status} after {took:.1} s");
    if scene.server.kind != Kind::Cabrank {
        return Ok(Seen::new(text));
    }
    let whole = whole_again(scene, PATIENCE);
    Ok(Seen::new(text)
        .wrong_if(!scene.server.knows("--max-request-time"), "there is no --max-request-time")
        .wrong_if(status != "504", format!("its own client: {status}"))
        .wrong_if(!whole, "the pool stays smaller"))
}

fn deadly_page(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let number = if scene.is_quick { 5 } else { 20 };
    let seen: Vec<_> =
        (0..number).map(|_| status_of(scene.server.address, "/die", PATIENCE)).collect();
    let wrong: Vec<_> = seen.iter().filter(|s| !matches!(s.as_str(), "502" | "503")).collect();
    let whole = whole_again(scene, PATIENCE);
    let seen = Seen::new(tally(&seen))
        .wrong_if(!wrong.is_empty(), format!("its own clients saw {}", tally(wrong)))
        .wrong_if(!whole, "the pool stays smaller");
    // The server cannot tell which of the requests at a process has killed it.
    let by_nature = (scene.app == App::Node).then_some("502");
    Ok(Seen { by_nature, ..seen })
}

fn garbage(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let dir = scene.server.app_dir.path().to_owned();
    for (_, line) in GARBAGE {
        interpreter::set(&dir, Some(line)).map_err(|e| e.to_string())?;
        // The pool is never empty: two of three processes go on.
        if scene.server.pool_size() == PROCESSES {
            signal(scene.server.some_pid()?, Signal::KILL);
        }
        std::thread::sleep(Duration::from_secs(2));
    }
    interpreter::set(&dir, None).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    let whole = whole_again(scene, Duration::from_secs(60));
    let kinds: Vec<_> = GARBAGE.iter().map(|(kind, _)| *kind).collect();
    let text =
        format!("{}; whole again after {:.0} s", kinds.join(", "), begun.elapsed().as_secs_f64());
    Ok(Seen::new(text).wrong_if(!whole, "the pool stays smaller"))
}

fn boot_long(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let dir = scene.server.app_dir.path().to_owned();
    interpreter::set(&dir, Some("sleep 100; exec python3 \"$@\"")).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    signal(scene.server.some_pid()?, Signal::KILL);
    let smaller = until(PATIENCE, || scene.server.pool_size() == PROCESSES - 1);
    // The new process has begun by then.
    std::thread::sleep(Duration::from_secs(2));
    interpreter::set(&dir, None).map_err(|e| e.to_string())?;
    let whole = whole_again(scene, Duration::from_secs(150));
    let took = begun.elapsed();
    Ok(Seen::new(format!("whole again after {:.0} s", took.as_secs_f64()))
        .wrong_if(!smaller, "no process is missing")
        .wrong_if(took < Duration::from_secs(100), "the boot was not long")
        .wrong_if(!whole, "the pool stays smaller"))
}

fn half(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let number = if scene.is_quick { 5 } else { 20 };
    let mut seen = Vec::new();
    for _ in 0..number {
        let reply =
            Client::with_patience(scene.server.address, PATIENCE).and_then(|mut c| c.get("/half"));
        seen.push(match reply {
            Ok(reply) => format!("a whole {}", reply.status),
            Err(error) if is_silence(&error) => "no end".to_owned(),
            Err(_) => "cut off".to_owned(),
        });
    }
    let wrong = seen.iter().any(|s| s != "cut off");
    let whole = whole_again(scene, PATIENCE);
    Ok(Seen::new(tally(&seen))
        .wrong_if(wrong, format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!whole, "the pool stays smaller"))
}
