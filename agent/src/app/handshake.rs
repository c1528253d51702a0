//! The dialogue between the agent and a loader while a process starts.
//!
//! ```text
//! loader   !> I have control 1.0
//! agent    You have control 1.0
//! agent    key: value
//! agent    (an empty line)
//! loader   !> Ready                                    or   !> Error
//! loader   !> socket: main;unix:/…/wsgi.1;session;1         !> html: true
//! loader   !> socket: kept;unix:/…/wsgi.2;kept_session;1    !>
//! loader   !>                                               free text to the end
//! ```
//!
//! A loader that replaces itself sends the first line again, and the handshake starts over. Lines that do
//! not begin with `!> ` are the application's own output.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Component, PathBuf};
use std::time::{Duration, Instant};

const HELLO: &str = "I have control 1.0";
const MAX_LINE: usize = 4096;
const MAX_ERROR_TEXT: u64 = 256 * 1024;
const ERROR_TEXT_TIME: Duration = Duration::from_secs(2);

/// The loader's answer when its application is ready.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) sockets: Vec<Socket>,
    pub(crate) pid: Option<u32>,
}

impl Ready {
    /// Returns the socket for requests: one with kept sessions where the loader offers it, else `main`.
    pub(crate) fn preferred(&self) -> Option<&Socket> {
        let kept = self.sockets.iter().find(|s| s.protocol == Protocol::KeptSession);
        kept.or_else(|| self.sockets.iter().find(|s| s.name == "main"))
    }
}

/// One socket that the process listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) protocol: Protocol,
    /// The number of simultaneous sessions; 0: any number.
    pub(crate) concurrency: usize,
}

/// The address that a process listens on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// The protocol of a process's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// One request a connection.
    Session,
    /// One request after another, in the frames of [`super::kept`].
    KeptSession,
    HttpSession,
}

/// The reason why a handshake did not end with `Ready`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The deadline passed.
    TimedOut,
    /// The loader closed its side: it died, or the spawn was cancelled.
    HungUp,
    /// The loader sent `Error`.
    Error { html: bool, text: String },
    /// The loader broke the protocol.
    Protocol(String),
    /// The channel to the loader failed.
    Io(String),
}

/// Performs the handshake. Returns the loader's answer, and the output that it has printed after it.
pub(crate) fn perform(
    control: &UnixStream,
    keys: &[(&str, String)],
    deadline: Instant,
    mut app_output: impl FnMut(&[u8]),
) -> Result<(Ready, Vec<u8>), Refusal> {
    let mut lines = Lines { control, deadline, pending: Vec::new() };
    let mut answered = false;
    loop {
        let line = lines.next_of_protocol(&mut app_output)?;
        match &*line {
            HELLO => {
                answered = true;
                lines.say(&greeting(keys)?)?;
            }
            "Ready" if answered => {
                let ready = read_ready(&mut lines, &mut app_output)?;
                return Ok((ready, lines.pending));
            }
            "Error" => return Err(read_error(&mut lines, &mut app_output)),
            _ => {
                return Err(Refusal::Protocol(if answered {
                    format!("expected `!> Ready` or `!> Error`, got `!> {line}`")
                } else {
                    format!("expected `!> {HELLO}`, got `!> {line}`")
                }));
            }
        }
    }
}

fn greeting(keys: &[(&str, String)]) -> Result<String, Refusal> {
    let mut text = String::from("You have control 1.0\n");
    for (key, value) in keys {
        // A line break would let the rest of the value pass for further keys.
        if value.contains(['\n', '\r', '\0']) {
            return Err(Refusal::Protocol(format!(
                "the value of {key} has a line break or NUL: {value:?}"
            )));
        }
        text.push_str(&format!("{key}: {value}\n"));
    }
    text.push('\n');
    Ok(text)
}

fn read_ready(lines: &mut Lines<'_>, app_output: impl FnMut(&[u8])) -> Result<Ready, Refusal> {
    let mut app_output = app_output;
    let mut ready = Ready::default();
    loop {
        let line = lines.next_of_protocol(&mut app_output)?;
        if line.is_empty() {
            break;
        }
        let wrong = |why: &str| Refusal::Protocol(format!("{why} in `!> {line}`"));
        match line.split_once(": ") {
            Some(("socket", value)) => {
                ready.sockets.extend(parse_socket(value).map_err(|why| wrong(&why))?);
            }
            Some(("pid", value)) => {
                ready.pid = Some(value.parse().map_err(|_| wrong("bad pid"))?);
            }
            _ => return Err(wrong("unknown key")),
        }
    }
    if ready.sockets.iter().filter(|s| s.name == "main").count() != 1 {
        return Err(Refusal::Protocol("the loader did not name exactly one socket `main`".into()));
    }
    Ok(ready)
}

fn read_error(lines: &mut Lines<'_>, mut app_output: impl FnMut(&[u8])) -> Refusal {
    let mut html = false;
    loop {
        match lines.next_of_protocol(&mut app_output) {
            Ok(line) if line.is_empty() => break,
            Ok(line) => match line.split_once(": ") {
                Some(("html", value)) => html = value == "true",
                _ => return Refusal::Protocol(format!("unknown key in `!> {line}`")),
            },
            Err(Refusal::HungUp) => break,
            Err(other) => return other,
        }
    }
    lines.deadline = lines.deadline.min(Instant::now() + ERROR_TEXT_TIME);
    // Keep the text that came before the deadline and the limit.
    while (lines.pending.len() as u64) < MAX_ERROR_TEXT && lines.more().is_ok() {}
    Refusal::Error { html, text: String::from_utf8_lossy(&lines.pending).into_owned() }
}

/// Parses `NAME;ADDRESS;PROTOCOL;CONCURRENCY`.
///
/// Returns `None` for a socket beside `main` whose protocol the agent does not know: a loader may offer
/// protocols of the future.
fn parse_socket(value: &str) -> Result<Option<Socket>, String> {
    let parts: Vec<_> = value.split(';').collect();
    let [name, address, protocol, concurrency] = parts[..] else {
        return Err("expected NAME;ADDRESS;PROTOCOL;CONCURRENCY".into());
    };
    let protocol = match protocol {
        "session" => Protocol::Session,
        // Each agent must be able to serve `main`.
        "kept_session" if name != "main" => Protocol::KeptSession,
        "http_session" => Protocol::HttpSession,
        _ if name != "main" => return Ok(None),
        other => return Err(format!("unknown protocol {other}")),
    };
    let concurrency = concurrency.parse().map_err(|_| "bad concurrency".to_owned())?;
    Ok(Some(Socket { name: name.into(), address: parse_address(address)?, protocol, concurrency }))
}

fn parse_address(address: &str) -> Result<Address, String> {
    if let Some(path) = address.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        let normal =
            path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !normal {
            return Err("the socket's path is not absolute and normal".into());
        }
        return Ok(Address::Unix(path));
    }
    match address.strip_prefix("tcp://").map(str::parse::<SocketAddr>) {
        Some(Ok(at)) if at.ip().is_loopback() => Ok(Address::Tcp(at)),
        _ => Err("the address is neither unix:/path nor tcp://127.0.0.1:PORT".into()),
    }
}

/// Reads the loader's lines until the deadline.
struct Lines<'a> {
    control: &'a UnixStream,
    deadline: Instant,
    /// Bytes that were read and not yet returned.
    pending: Vec<u8>,
}

impl Lines<'_> {
    /// Returns the next line of the protocol, without its mark. Passes other lines to `app_output`.
    fn next_of_protocol(&mut self, mut app_output: impl FnMut(&[u8])) -> Result<String, Refusal> {
        loop {
            let line = match self.next() {
                Ok(line) => line,
                Err(refusal) => {
                    if !self.pending.is_empty() {
                        app_output(&std::mem::take(&mut self.pending));
                    }
                    return Err(refusal);
                }
            };
            match line.strip_prefix(b"!> ") {
                Some(_) if line.len() > MAX_LINE => {
                    return Err(Refusal::Protocol(format!("a line of more than {MAX_LINE} bytes")));
                }
                Some(said) => {
                    return String::from_utf8(said.to_vec())
                        .map_err(|_| Refusal::Protocol("a line that is not UTF-8".into()));
                }
                None if line.is_empty() => {}
                None => app_output(&line),
            }
        }
    }

    /// Returns the next line, without its line break. Returns a line that is too long in pieces.
    fn next(&mut self) -> Result<Vec<u8>, Refusal> {
        loop {
            if let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
                let mut line: Vec<u8> = self.pending.drain(..=end).collect();
                line.pop();
                return Ok(line);
            }
            if self.pending.len() > MAX_LINE {
                return Ok(std::mem::take(&mut self.pending));
            }
            self.more()?;
        }
    }

    fn time_left(&self) -> Result<Duration, Refusal> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Refusal::TimedOut) } else { Ok(left) }
    }

    fn more(&mut self) -> Result<(), Refusal> {
        let mut buffer = [0; 4096];
        self.control.set_read_timeout(Some(self.time_left()?)).map_err(io_refusal)?;
        match self.control.read(&mut buffer) {
            Ok(0) => Err(Refusal::HungUp),
            Ok(n) => {
                self.pending.extend_from_slice(&buffer[..n]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(io_refusal(e)),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Refusal> {
        self.control.set_write_timeout(Some(self.time_left()?)).map_err(io_refusal)?;
        self.control.write_all(text.as_bytes()).map_err(io_refusal)
    }
}

fn io_refusal(e: io::Error) -> Refusal {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Refusal::TimedOut,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Refusal::HungUp,
        _ => Refusal::Io(e.to_string()),
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
