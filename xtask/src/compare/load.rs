//! The load: keep-alive connections, each of which sends its next request as soon as it has its answer.
//!
//! One thread serves all connections by epoll. Its own processor time is not part of any figure.

use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: compare\r\nAccept: */*\r\n\r\n";
const TIMEOUT: Duration = Duration::from_secs(10);

/// The state of a load, which its caller sets.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    /// Whether requests count.
    pub(crate) measures: AtomicBool,
    pub(crate) ends: AtomicBool,
}

struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
    sent: Instant,
}

impl Connection {
    fn open(to: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Connection { stream, answer: Vec::new(), sent: Instant::now() })
    }

    fn send(&mut self) -> std::io::Result<()> {
        self.answer.clear();
        self.sent = Instant::now();
        self.stream.write_all(REQUEST)
    }

    /// Reads what has come, and returns whether the answer is complete.
    fn receive(&mut self, buffer: &mut [u8]) -> std::io::Result<bool> {
        match self.stream.read(buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            read => {
                self.answer.extend_from_slice(&buffer[..read]);
                is_complete(&self.answer).map_err(std::io::Error::other)
            }
        }
    }
}

/// Returns whether the bytes are a whole answer. An answer other than "hello" is an error.
fn is_complete(answer: &[u8]) -> Result<bool, String> {
    let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return Ok(false);
    };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(answer).into_owned());
    }
    // Every server in the comparison declares the length of this answer.
    match body.len().cmp(&5) {
        std::cmp::Ordering::Less => Ok(false),
        std::cmp::Ordering::Equal if body == b"hello" => Ok(true),
        _ => Err(String::from_utf8_lossy(answer).into_owned()),
    }
}

/// Sends one request over a connection of its own.
pub(crate) fn probe(to: SocketAddr) -> Result<(), String> {
    let probe = || {
        let mut connection = Connection::open(to)?;
        connection.send()?;
        while !connection.receive(&mut [0; 4096])? {}
        Ok(())
    };
    probe().map_err(|error: std::io::Error| error.to_string())
}

/// Keeps `connections` busy until the phase ends, and returns the latency of each request that counts.
pub(crate) fn run(
    to: SocketAddr,
    connections: usize,
    phase: &Phase,
) -> Result<Vec<Duration>, String> {
    load(to, connections, phase).map_err(|error| format!("{to}: {error}"))
}

fn load(to: SocketAddr, connections: usize, phase: &Phase) -> std::io::Result<Vec<Duration>> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let add = |connection: &Connection, number: usize| {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, &connection.stream, data, epoll::EventFlags::IN)
    };
    let mut all = Vec::new();
    for number in 0..connections {
        let mut connection = Connection::open(to)?;
        add(&connection, number)?;
        connection.send()?;
        all.push(connection);
    }
    let mut latencies = Vec::new();
    let mut buffer = vec![0; 65536];
    let mut events = Vec::with_capacity(connections);
    let timeout = rustix::event::Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    while !phase.ends.load(Ordering::Relaxed) {
        events.clear();
        let found = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(&poll, found, Some(&timeout))? == 0 {
            return Err(std::io::Error::other("no answer came in 10 s"));
        }
        for event in &events {
            let number = event.data.u64() as usize;
            let connection = &mut all[number];
            if !connection.receive(&mut buffer)? {
                continue;
            }
            if phase.measures.load(Ordering::Relaxed) {
                latencies.push(connection.sent.elapsed());
            }
            if closes(&connection.answer) {
                *connection = Connection::open(to)?;
                add(connection, number)?;
            }
            connection.send()?;
        }
    }
    Ok(latencies)
}

/// Returns whether the server closes the connection after this answer.
fn closes(answer: &[u8]) -> bool {
    answer.windows(19).any(|bytes| bytes.eq_ignore_ascii_case(b"\r\nconnection: close"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_hello_is_an_answer() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
        let of = |body: &str| is_complete(format!("{head}\r\n{body}").as_bytes());
        assert_eq!((of("hel"), of("hello")), (Ok(false), Ok(true)));
        assert!(of("hello!").is_err() && of("Hello").is_err());
        assert_eq!(is_complete(head.as_bytes()), Ok(false));
        assert!(is_complete(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").is_err());
    }

    #[test]
    fn a_close_is_found_in_any_case() {
        assert!(closes(b"HTTP/1.1 200 OK\r\nCONNECTION: Close\r\n\r\nhello"));
        assert!(!closes(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nhello"));
    }
}
