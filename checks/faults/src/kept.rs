//! Applications that use the connection of a request after its answer, beside clients that come next.

use crate::app::App;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::{PROCESSES, Setup};
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, describe};
use cabrank_checks_harness::processes::signal;
use cabrank_checks_harness::{Signal, until};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn faults() -> Vec<Fault> {
    let plain = Fault {
        name: "",
        about: "",
        cost: "",
        apps: &[App::Wsgi, App::Rack],
        quick: true,
        peers: false,
        setup: Setup::default(),
        plant: |_| Ok(Seen::default()),
    };
    vec![
        Fault {
            name: "late readers",
            about: "threads of the application go on reading the bodies of 4 uploading clients after the answers",
            cost: "the connection of a session that a thread still reads",
            plant: read_late,
            ..plain
        },
        Fault {
            name: "forked children that return",
            about: "requests fork, and their children go on as if the answer were theirs",
            cost: "nothing",
            plant: fork,
            ..plain
        },
        Fault {
            name: "late bodies behind HEAD",
            about: "2 clients send HEAD for a page whose body comes nevertheless, and is another answer",
            cost: "a connection to the process for each",
            apps: &[App::Generic],
            plant: poison,
            ..plain
        },
        Fault {
            name: "daemon of a dead process",
            about: "requests kill their process, whose daemon holds its sockets open",
            cost: "a boot for each process that dies: two a request",
            apps: &[App::Wsgi],
            plant: leave_daemons,
            ..plain
        },
    ]
}

/// Lets clients repeat a request for some seconds, each on a kept connection. Returns the results.
fn repeat(
    scene: &Scene<'_>,
    clients: usize,
    ask: fn(&mut Client) -> io::Result<(String, bool)>,
) -> Vec<String> {
    let (to, end) = (scene.server.address, Instant::now() + scene.seconds(8, 3));
    let one = move || {
        let (mut seen, mut kept) = (Vec::new(), None);
        while Instant::now() < end {
            let client = kept.take().map_or_else(|| Client::with_patience(to, PATIENCE), Ok);
            match client.and_then(|mut client| Ok((ask(&mut client)?, client))) {
                Ok(((text, closes), client)) => {
                    seen.push(text);
                    kept = (!closes).then_some(client);
                }
                Err(error) => seen.push(describe(&error)),
            }
        }
        seen
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
    })
}

/// The body is sent in parts, and its answer may come before the last one.
fn upload_in_parts(client: &mut Client) -> io::Result<(String, bool)> {
    let body = [b'a'; 180_000];
    let head =
        format!("POST /late HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head.as_bytes())?;
    for part in body.chunks(30_000) {
        client.send(part)?;
    }
    let reply = client.reply("POST")?;
    Ok((reply.status.to_string(), reply.closes()))
}

fn read_late(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let seen = repeat(scene, 4, upload_in_parts);
    let foreign = fs::read(scene.server.app_dir.path().join("foreign")).unwrap_or_default();
    let served = seen.iter().filter(|s| *s == "200").count();
    Ok(Seen::new(tally(&seen))
        .wrong_if(served < seen.len(), format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!foreign.is_empty(), "a thread has read bytes of another request"))
}

fn fork(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let times = if scene.is_quick { 10 } else { 40 };
    let to = scene.server.address;
    let ask = |path: &str| {
        let reply = Client::with_patience(to, PATIENCE).and_then(|mut client| client.get(path));
        reply.map_or_else(|error| describe(&error), |reply| reply.text())
    };
    let seen: Vec<_> = (0..times).flat_map(|_| ["/fork", "/fork-call"]).map(ask).collect();
    let gone = until(PATIENCE, || scene.server.processes().len() <= PROCESSES + 2);
    let wrong = seen.iter().any(|text| text != "parent");
    Ok(Seen::new(tally(&seen))
        .wrong_if(wrong, format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!gone, "children stay"))
}

fn poison(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let seen = repeat(scene, 2, |client| {
        let reply = client.request("HEAD", "/evil", &[], b"")?;
        Ok((reply.status.to_string(), reply.closes()))
    });
    let wrong = seen.iter().any(|status| status != "200");
    Ok(Seen::new(tally(&seen)).wrong_if(wrong, format!("its own clients saw {}", tally(&seen))))
}

fn leave_daemons(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let times = if scene.is_quick { 3 } else { 10 };
    let (mut seen, mut longest) = (Vec::new(), Duration::ZERO);
    for _ in 0..times {
        let begun = Instant::now();
        seen.push(status_of(scene.server.address, "/daemon", PATIENCE));
        longest = longest.max(begun.elapsed());
        // Two of three processes may have died for one request.
        until(PATIENCE, || scene.server.pool_size() == PROCESSES);
    }
    let whole = until(PATIENCE, || scene.server.pool_size() == PROCESSES);
    let daemons = fs::read_to_string(scene.server.app_dir.path().join("daemons"));
    let daemons = daemons.map_err(|e| format!("daemons: {e}"))?;
    for pid in daemons.lines() {
        signal(pid.parse().map_err(|_| daemons.clone())?, Signal::KILL);
    }
    let wrong = seen.iter().any(|status| status != "502");
    Ok(Seen::new(format!("{} after {:.1} s at most", tally(&seen), longest.as_secs_f64()))
        .wrong_if(wrong, format!("its own clients saw {}", tally(&seen)))
        .wrong_if(!whole, "the pool stays smaller"))
}
