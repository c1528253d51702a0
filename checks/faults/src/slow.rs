//! Clients that are slow, or leave, or stay without asking.

use crate::app::{BOTH, WSGI};
use crate::descriptors;
use crate::fault::{Fault, Scene, Seen};
use crate::setup::Setup;
use crate::words::{status_of, tally};
use cabrank_checks_harness::http::{Client, describe};
use cabrank_checks_harness::processes::resident_memory;
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn faults() -> Vec<Fault> {
    vec![
        Fault {
            name: "slow heads",
            about: "200 clients send a byte of a head each second",
            cost: "a descriptor and a buffer a client",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup::default(),
            plant: |scene| drip(scene, 200, "GET / HTTP/1.1\r\nHost: test\r\nX-Slow: ".into()),
        },
        Fault {
            name: "slow bodies",
            about: "30 clients send a byte of a body each second",
            cost: "a descriptor and a buffer a client",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup::default(),
            plant: |scene| {
                let head = "POST /length HTTP/1.1\r\nHost: test\r\nContent-Length: 5000\r\n\r\n";
                drip(scene, 30, head.into())
            },
        },
        Fault {
            name: "slow readers",
            about: "30 clients read 2 KB a second of an answer of 6 MB",
            cost: "memory and disk for what they have not read yet",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup::default(),
            plant: slow_readers,
        },
        Fault {
            name: "abandoned requests",
            about: "two clients leave while their request of 6 s is in progress",
            cost: "two of three processes work on for 6 s",
            apps: BOTH,
            quick: false,
            peers: true,
            setup: Setup::default(),
            plant: |scene| abandon(scene, 2, 6),
        },
        Fault {
            name: "abandoned in the queue",
            about: "30 clients leave, of which three have a process for 3 s and the others wait",
            cost: "WSGI: all three processes work on for 3 s",
            apps: BOTH,
            quick: true,
            peers: true,
            setup: Setup::default(),
            plant: |scene| abandon(scene, 30, 3),
        },
        Fault {
            name: "idle clients",
            about: "20,000 clients keep a connection without a request",
            cost: "a descriptor and 2 KB a client",
            apps: WSGI,
            quick: false,
            peers: false,
            setup: Setup { descriptors: Some(|| idle_clients() + SPARE), ..Setup::default() },
            plant: idle,
        },
    ]
}

/// Plays slow clients, and sends a visitor in between: the visitor must not wait until they have gone.
fn beside(scene: &Scene<'_>, mut second: impl FnMut()) -> Option<String> {
    let to = scene.server.address;
    let end = Instant::now() + scene.seconds(12, 6);
    let visitor = std::thread::spawn(move || {
        std::thread::sleep(SECOND);
        status_of(to, "/", MINUTE)
    });
    while Instant::now() < end {
        second();
        std::thread::sleep(SECOND);
    }
    visitor.is_finished().then(|| visitor.join().unwrap_or_default())
}

fn judge(seen: Seen, visitor: Option<String>) -> Seen {
    let text = visitor.unwrap_or_else(|| "no answer until they leave".to_owned());
    seen.wrong_if(text != "200", format!("a visitor beside them gets {text}"))
}

/// Lets clients send a beginning, and then one byte a second.
fn drip(scene: &mut Scene<'_>, clients: usize, start: String) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..clients {
        let mut stream = TcpStream::connect(scene.server.address).map_err(|e| e.to_string())?;
        stream.write_all(start.as_bytes()).map_err(|e| e.to_string())?;
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
        all.push(stream);
    }
    let visitor = beside(scene, || {
        for stream in &mut all {
            let _ = stream.write(b"x");
        }
    });
    let mut ended = 0;
    for stream in &mut all {
        let still = stream.read(&mut [0; 1]).is_err_and(|e| e.kind() == ErrorKind::WouldBlock);
        ended += usize::from(!still);
    }
    let seen = Seen::new(format!("{ended} of {clients} are ended by the server meanwhile"));
    Ok(judge(seen, visitor))
}

/// The answers exceed what the system keeps for a socket (4 MB).
fn slow_readers(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..30 {
        let mut stream = connect_small(scene.server.address).map_err(|e| e.to_string())?;
        let request = b"GET /big/6000000 HTTP/1.1\r\nHost: test\r\n\r\n";
        stream.write_all(request).map_err(|e| e.to_string())?;
        stream.set_nonblocking(true).map_err(|e| e.to_string())?;
        all.push(stream);
    }
    let (mut begun, mut ended) = (vec![false; all.len()], vec![false; all.len()]);
    let visitor = beside(scene, || {
        for (n, stream) in all.iter_mut().enumerate() {
            match stream.read(&mut [0; 2048]) {
                Ok(0) => ended[n] = true,
                Ok(_) => begun[n] = true,
                Err(e) => ended[n] |= e.kind() != ErrorKind::WouldBlock,
            }
        }
    });
    let count = |all: &[bool]| all.iter().filter(|is| **is).count();
    let seen = Seen::new(format!(
        "{} of 30 have the beginning of their answer, {} are ended by the server meanwhile",
        count(&begun),
        count(&ended)
    ));
    Ok(judge(seen, visitor))
}

/// Connects with a receive buffer that holds little.
pub(crate) fn connect_small(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.set_recv_buffer_size(4096)?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// Lets clients ask for an answer that takes `seconds`, and leave after one.
fn abandon(scene: &mut Scene<'_>, clients: usize, seconds: u64) -> Result<Seen, String> {
    let mut all = Vec::new();
    for _ in 0..clients {
        let mut client =
            Client::with_patience(scene.server.address, MINUTE).map_err(|e| e.to_string())?;
        client.ask(&format!("/sleep/{seconds}")).map_err(|e| e.to_string())?;
        all.push(client);
    }
    std::thread::sleep(SECOND);
    drop(all);
    // The next visitor is the one who pays.
    let begun = Instant::now();
    let status = status_of(scene.server.address, "/", MINUTE);
    let took = begun.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(seconds));
    let seen = Seen::new(format!("the next visitor gets {status} after {took:.1} s"));
    Ok(seen.wrong_if(status != "200", format!("the next visitor gets {status}")))
}

/// The descriptors of a server beside those of its idle clients.
const SPARE: usize = 480;

/// Returns 20,000, or as many as this program may open itself.
fn idle_clients() -> usize {
    20_000.min(descriptors::hard_limit() - SPARE)
}

fn idle(scene: &mut Scene<'_>) -> Result<Seen, String> {
    let (number, to) = (idle_clients(), scene.server.address);
    let memory = resident_memory(scene.server.pid());
    let (mut all, mut failed) = (Vec::with_capacity(number), Vec::new());
    for _ in 0..number {
        // A reader with a buffer for each would need more memory than the server.
        let asked = TcpStream::connect(to).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(10)))?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n")?;
            let mut start = [0; 1024];
            let size = stream.read(&mut start)?;
            Ok((stream, String::from_utf8_lossy(&start[..size]).into_owned()))
        });
        match asked {
            Ok((stream, answer)) if answer.starts_with("HTTP/1.1 200") => all.push(stream),
            Ok((_, answer)) => failed.push(answer.get(9..12).unwrap_or("closed").to_owned()),
            Err(error) => failed.push(describe(&error)),
        }
        if failed.len() > 200 {
            break;
        }
    }
    let each = resident_memory(scene.server.pid()).saturating_sub(memory) / all.len().max(1) as u64;
    let new: Vec<_> = (0..50).map(|_| status_of(to, "/", Duration::from_secs(10))).collect();
    let status = scene.server.tool(["status"])?;
    let served = new.iter().filter(|s| *s == "200").count();
    let text = format!(
        "{} of {number} are served and stay; new clients: {}; `status` {}; {each} bytes each",
        all.len(),
        tally(&new),
        if status.status.success() { "answers" } else { "fails" },
    );
    Ok(Seen::new(text)
        .wrong_if(!failed.is_empty(), format!("idle clients saw {}", tally(&failed)))
        .wrong_if(served < new.len(), format!("new clients saw {}", tally(&new)))
        .wrong_if(!status.status.success(), "`status` fails"))
}
