//! Memory that runs out, in the server and in an application; and clients that make a process use more.

use crate::app::App;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::{PROCESSES, Setup};
use crate::words::{status_of, tally};
use cabrank_checks_harness::processes::resident_memory;
use cabrank_checks_harness::{Client, Signal, until, websocket};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const MIB: u64 = 1 << 20;

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
            name: "application out of memory",
            about: "20 requests need more memory than their process may have (RLIMIT_AS)",
            cost: "500 for these",
            plant: exhaust_application,
            ..plain
        },
        Fault {
            name: "server out of memory",
            about: "clients send parts of bodies until the server may have no more memory (RLIMIT_AS)",
            cost: "the server aborts, as Rust's allocator does; the processes end, and the next start removes the files",
            plant: exhaust_server,
            ..plain
        },
        Fault {
            name: "WebSocket floods",
            about: "WebSockets send 64 MB of pings without reading, of empty fragments, and of small fragments",
            cost: "a part of one process's time",
            apps: &[App::Asgi],
            plant: flood,
            ..plain
        },
    ]
}

fn exhaust_application(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let to = scene.server.address;
    let seen: Vec<_> = (0..20).map(|_| status_of(to, "/memory", PATIENCE)).collect();
    let whole = until(PATIENCE, || scene.server.pool_size() == PROCESSES);
    Ok(Seen::new(tally(&seen))
        .wrong_if(seen.iter().any(|status| status != "500"), "a status that is not 500")
        .wrong_if(!whole, "the pool stays smaller"))
}

/// Sets the server's limit of memory.
fn limit(pid: u32, limit: Option<u64>) -> Result<(), String> {
    let pid = Pid::from_raw(pid as i32).ok_or("no pid")?;
    let maximum = getrlimit(Resource::As).maximum;
    let limit = Rlimit { current: limit.or(maximum), maximum };
    prlimit(Some(pid), Resource::As, limit).map(|_| ()).map_err(|e| format!("prlimit: {e}"))
}

fn exhaust_server(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let (to, pid) = (scene.server.address, scene.server.pid());
    // A part of the memory that is reserved already is still free.
    limit(pid, Some(virtual_memory(pid) + 4 * MIB))?;
    scene.healthy.server_is_killed();
    let head = b"POST /length HTTP/1.1\r\nHost: test\r\nContent-Length: 65000\r\n\r\n";
    let request = [&head[..], &[b'x'; 60_000]].concat();
    let mut clients = Vec::new();
    while scene.server.has_ended().is_none() && clients.len() < 12_000 {
        let Ok(mut client) = TcpStream::connect(to) else { break };
        let _ = client.set_write_timeout(Some(Duration::from_millis(500)));
        let _ = client.write_all(&request);
        clients.push(client);
    }
    let count = clients.len();
    drop(clients);
    // A server that aborts writes its last line before.
    until(Duration::from_secs(2), || scene.server.has_ended().is_some());
    match scene.server.has_ended() {
        None => survive(scene, count),
        Some(status) => {
            let why = || scene.server.log().contains("memory allocation of");
            let says = until(PATIENCE, why);
            let gone = until(PATIENCE, || scene.server.processes().is_empty());
            scene.server.start_another(scene.app)?;
            let is_abort = status.signal() == Some(Signal::ABORT.as_raw());
            Ok(Seen::new(format!("{count} clients, then {status}; all processes end"))
                .wrong_if(!is_abort, format!("the server ended otherwise: {status}"))
                .wrong_if(!says, "the log does not say why")
                .wrong_if(!gone, "processes survive the server"))
        }
    }
}

fn survive(scene: &Scene<'_>, clients: usize) -> Result<Seen, String> {
    limit(scene.server.pid(), None)?;
    let after: Vec<_> = (0..20).map(|_| status_of(scene.server.address, "/", PATIENCE)).collect();
    let whole = until(PATIENCE, || scene.server.pool_size() == PROCESSES);
    let seen = Seen::new(format!("it survives {clients} clients; afterwards {}", tally(&after)))
        .wrong_if(after.iter().any(|s| s != "200"), format!("afterwards {}", tally(&after)))
        .wrong_if(!whole, "the pool stays smaller");
    Ok(Seen { by_nature: Some("503"), ..seen })
}

/// Returns the address space of a process in bytes, which the limit is about.
fn virtual_memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = text.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Returns one frame of a client's WebSocket. A mask of zeros leaves the data as it is.
fn frame(first: u8, data: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | data.len() as u8, 0, 0, 0, 0], data].concat()
}

fn flood(scene: &mut Scene<'_>) -> Result<Seen, String> {
    const PING: u8 = 0x89;
    const TEXT_BEGINS: u8 = 0x01;
    const TEXT_GOES_ON: u8 = 0x00;
    let begin = frame(TEXT_BEGINS, b"a");
    let floods = [
        ("pings", Vec::new(), frame(PING, &[b'x'; 125])),
        ("empty fragments", begin.clone(), frame(TEXT_GOES_ON, b"")),
        ("small fragments", begin, frame(TEXT_GOES_ON, b"b")),
    ];
    let (mut texts, mut wrong) = (Vec::new(), Vec::new());
    for (name, first, frame) in floods {
        let memory = |scene: &Scene<'_>| -> Result<u64, String> {
            Ok(scene.server.pids()?.into_iter().map(resident_memory).sum())
        };
        let before = memory(scene)?;
        let mut client = Client::with_patience(scene.server.address, Duration::from_secs(3))
            .map_err(|e| e.to_string())?;
        websocket::open(&mut client, "/ws")?;
        let block = frame.repeat(65536 / frame.len());
        let (mut sent, mut most, mut open) = (0, before, client.send(&first).is_ok());
        while open && sent < 64 * MIB {
            open = client.send(&block).is_ok();
            sent += block.len() as u64;
            if sent % (4 * MIB) < block.len() as u64 {
                most = most.max(memory(scene)?);
            }
        }
        most = most.max(memory(scene)?);
        let grown = most.saturating_sub(before) / MIB;
        let end = if open { "" } else { ", then paused or closed" };
        texts.push(format!("{} MB of {name}{end}: {grown} MB", sent / MIB));
        if grown > 48 {
            wrong.push(format!("{name} cost the process {grown} MB"));
        }
    }
    Ok(Seen { wrong, ..Seen::new(format!("memory of the processes after {}", texts.join("; "))) })
}
