//! Places that a server has few of, and clients or a file system that hold them for long.

use crate::app::App;
use crate::disk::{self, Disk};
use crate::fault::{Fault, Scene, Seen};
use crate::setup::Setup;
use crate::slow::connect_small;
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, describe};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A large upload waits as long as the file system is frozen.
const PATIENCE: Duration = Duration::from_secs(30);
/// All others get their answer at once, or never.
const SHORT: Duration = Duration::from_secs(5);

pub(crate) fn faults() -> Vec<Fault> {
    let plain = Fault {
        name: "",
        about: "",
        cost: "",
        apps: &[App::Wsgi],
        quick: true,
        peers: false,
        setup: Setup::default(),
        plant: |_| Ok(Seen::default()),
    };
    vec![
        Fault {
            name: "readers at the limit",
            about: "60 clients do not read an answer of 6 MB, where 20 requests may be in progress",
            cost: "memory and disk for what they have not read yet",
            apps: &[App::Node],
            setup: Setup { options: &["--max-requests-in-progress=20"], ..Setup::default() },
            plant: hold_requests,
            ..plain
        },
        Fault {
            name: "silent connections",
            about: "60 connections that never send a byte, where 30 may be open",
            cost: "the connections that have been idle for longest",
            setup: Setup { options: &["--max-connections=30"], ..Setup::default() },
            plant: hold_connections,
            ..plain
        },
        Fault {
            name: "frozen file system",
            about: "the file system of the instance directory is frozen (fsfreeze), as for a snapshot",
            cost: "what needs a file waits: a large body, a large answer for a slow reader, a boot",
            apps: &[App::Wsgi, App::Node],
            setup: Setup { disk: Disk::Freezable, ..Setup::default() },
            plant: freeze,
            ..plain
        },
    ]
}

/// Sends visitors for some seconds. Each of them must get 200.
fn visit(scene: &Scene<'_>) -> Seen {
    let pause = scene.seconds(10, 3) / 20;
    let visit = |_| {
        std::thread::sleep(pause);
        status_of(scene.server.address, "/", SHORT)
    };
    let seen: Vec<_> = (0..20).map(visit).collect();
    let all = tally(&seen);
    Seen::new(format!("visitors beside them: {all}"))
        .wrong_if(seen.iter().any(|status| status != "200"), format!("visitors saw {all}"))
}

fn hold_requests(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..60 {
        let mut stream = connect_small(scene.server.address).map_err(|e| e.to_string())?;
        let request = b"GET /big/6000000 HTTP/1.1\r\nHost: test\r\n\r\n";
        stream.write_all(request).map_err(|e| e.to_string())?;
        all.push(stream);
    }
    Ok(visit(scene))
}

fn hold_connections(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..60 {
        all.push(TcpStream::connect(scene.server.address).map_err(|e| e.to_string())?);
    }
    Ok(visit(scene))
}

/// Uploads a body. Returns the status, or the error as text.
fn upload(to: SocketAddr, size: usize, patience: Duration) -> String {
    let body = vec![b'x'; size];
    let reply = Client::with_patience(to, patience)
        .and_then(|mut client| client.request("POST", "/length", &[], &body));
    match reply {
        Ok(reply) if reply.status == 200 && reply.text() != size.to_string() => {
            "200 for a part of the body".to_owned()
        }
        Ok(reply) => reply.status.to_string(),
        Err(error) => describe(&error),
    }
}

fn freeze(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    let frozen = disk::freeze(scene.server.runtime.path())?;
    // The server has tried to use the file system by then.
    std::thread::sleep(Duration::from_secs(2));
    let (seen, small, large) = std::thread::scope(|scope| {
        let large: Vec<_> =
            (0..4).map(|_| scope.spawn(move || upload(to, 3_000_000, PATIENCE))).collect();
        let small: Vec<_> =
            [3, 60_000].repeat(5).into_iter().map(|n| upload(to, n, SHORT)).collect();
        let seen = visit(scene);
        drop(frozen);
        let large: Vec<_> = large.into_iter().map(|t| t.join().unwrap_or_default()).collect();
        (seen, tally(small), tally(large))
    });
    let after = tally((0..20).map(|_| status_of(to, "/", PATIENCE)));
    let text =
        format!("{}; small uploads: {small}; large uploads after the thaw: {large}", seen.text);
    Ok(Seen { text, ..seen }
        .wrong_if(small != "10 × 200", format!("small uploads: {small}"))
        .wrong_if(large != "4 × 200", format!("large uploads: {large}"))
        .wrong_if(after != "20 × 200", format!("afterwards {after}")))
}
