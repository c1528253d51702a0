//! The machine's limits: descriptors, disk, files that somebody removes.

use crate::app::{BOTH, WSGI};
use crate::disk::Disk;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::Setup;
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, describe};
use cabrank_checks_harness::until;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault {
            name: "descriptors exhausted",
            about: "200 clients of a server that may have 128 descriptors",
            cost: "those beyond the limit are closed, or get 503",
            apps: WSGI,
            quick: true,
            peers: false,
            setup: Setup { descriptors: Some(|| 128), ..Setup::default() },
            plant: exhaust,
        },
        Fault {
            name: "disk full",
            about: "20 uploads of 3 MB and 10 slow readers, with 1 MB in the instance directory",
            cost: "503 for an upload that does not fit",
            apps: BOTH,
            quick: true,
            peers: false,
            setup: Setup { disk: Disk::Tiny, ..Setup::default() },
            plant: fill,
        },
        Fault {
            name: "instance directory removed",
            about: "a cleaner of temporary files removes all files of a running server",
            cost: "the server makes it again, or stops and says why",
            apps: WSGI,
            quick: true,
            peers: false,
            setup: Setup::default(),
            plant: remove,
        },
    ]
}

fn exhaust(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    let patience = Duration::from_millis(200);
    let (mut kept, mut seen) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let answer = Client::with_patience(to, patience).and_then(|mut client| {
            let reply = client.get("/")?;
            kept.push(client);
            Ok(reply.status.to_string())
        });
        seen.push(answer.unwrap_or_else(|e| describe(&e)));
    }
    std::thread::sleep(scene.seconds(4, 2));
    let messages = scene.server.log().lines().filter(|line| is_about_descriptors(line)).count();
    drop(kept);
    std::thread::sleep(Duration::from_secs(1));
    let after: Vec<_> = (0..20).map(|_| status_of(to, "/", PATIENCE)).collect();
    let text = format!("{}; afterwards {}; {messages} log lines", tally(&seen), tally(&after));
    Ok(Seen::new(text)
        .wrong_if(after.iter().any(|s| s != "200"), format!("afterwards {}", tally(&after)))
        .wrong_if(messages > 10, format!("{messages} log lines about descriptors")))
}

fn is_about_descriptors(line: &str) -> bool {
    ["Too many open files", "descriptors", "os error 24"].iter().any(|part| line.contains(part))
}

fn fill(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    let body = vec![b'x'; 3_000_000];
    let upload = || {
        let reply = Client::with_patience(to, PATIENCE)
            .and_then(|mut c| c.request("POST", "/length", &[], &body));
        match reply {
            Ok(reply) if reply.status == 200 && reply.body != b"3000000" => {
                "200 for a part of the body".to_owned()
            }
            Ok(reply) => reply.status.to_string(),
            Err(e) => describe(&e),
        }
    };
    // Readers who do not read leave the answer to the server.
    let mut readers = Vec::new();
    for _ in 0..10 {
        let mut reader = Client::with_patience(to, PATIENCE).map_err(|e| e.to_string())?;
        reader.ask("/big/8000000").map_err(|e| e.to_string())?;
        readers.push(reader);
    }
    let seen: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..5).map(|_| upload()).collect())).collect();
        all.into_iter()
            .flat_map(|t| t.join().unwrap_or_else(|_| vec!["panic".to_owned()]))
            .collect()
    });
    drop(readers);
    let bad = |s: &&String| !matches!(s.as_str(), "200" | "503" | "507");
    let wrong: Vec<_> = seen.iter().filter(bad).collect();
    Ok(Seen::new(format!("uploads: {}", tally(&seen)))
        .wrong_if(!wrong.is_empty(), format!("uploads: {}", tally(wrong))))
}

fn remove(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    scene.server.remove_instance_dir()?;
    std::thread::sleep(scene.seconds(4, 3));
    if scene.server.has_ended().is_some() {
        let log = scene.server.log();
        return Ok(Seen::new("the server stopped")
            .wrong_if(!log.contains("instance directory"), "the log does not say why it stopped"));
    }
    let again = until(PATIENCE, || scene.server.tool(["status"]).is_ok_and(|o| o.status.success()));
    let after = status_of(to, "/", PATIENCE);
    let text = format!("afterwards {after}, `status` {}", if again { "answers" } else { "fails" });
    Ok(Seen::new(text)
        .wrong_if(!again, "`status` fails")
        .wrong_if(after != "200", format!("afterwards {after}")))
}
