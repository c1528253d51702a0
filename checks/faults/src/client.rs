//! A small blocking HTTP/1.1 client. An incomplete answer is an error.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

/// An answer. `closes` says that the server closes the connection behind it.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) closes: bool,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr, patience: Duration) -> io::Result<Client> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufReader::with_capacity(4096, stream) })
    }

    pub(crate) fn ask(&mut self, path: &str) -> io::Result<()> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.ask(path)?;
        self.reply()
    }

    pub(crate) fn post(&mut self, path: &str, body: &[u8]) -> io::Result<Reply> {
        let size = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n");
        self.send(head.as_bytes())?;
        // A server that refuses may close early: its answer tells.
        let sent = self.send(body);
        self.reply().or_else(|error| sent.and(Err(error)))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(io::Error::other(format!("closed within {line:?}"))),
        }
    }

    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("status line {first:?}")))?;
        let mut reply = Reply { status, body: Vec::new(), closes: first.starts_with("HTTP/1.0") };
        let (mut length, mut is_chunked) = (None, false);
        loop {
            let line = self.line()?.to_ascii_lowercase();
            let Some((name, value)) = line.split_once(':') else { break };
            match (name, value.trim()) {
                ("content-length", value) => length = value.parse().ok(),
                ("transfer-encoding", "chunked") => is_chunked = true,
                ("connection", "close") => reply.closes = true,
                ("connection", "keep-alive") => reply.closes = false,
                _ => {}
            }
        }
        // Behind the head, an end of input is an incomplete answer.
        let within = |e: io::Error| io::Error::other(format!("half an answer: {e}"));
        match (is_chunked, length) {
            (true, _) => loop {
                let size = self.line().map_err(within)?;
                let size = usize::from_str_radix(&size, 16).map_err(io::Error::other)?;
                self.take(size, &mut reply.body).map_err(within)?;
                self.line().map_err(within)?;
                if size == 0 {
                    return Ok(reply);
                }
            },
            (false, Some(length)) => self.take(length, &mut reply.body).map_err(within)?,
            (false, None) => {
                reply.closes = true;
                self.stream.read_to_end(&mut reply.body)?;
            }
        }
        Ok(reply)
    }

    fn take(&mut self, size: usize, body: &mut Vec<u8>) -> io::Result<()> {
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(&mut body[start..])
    }
}

/// Sends one GET over a new connection. Returns the status, or the error as text.
pub(crate) fn status_of(to: SocketAddr, path: &str, patience: Duration) -> String {
    match Client::connect(to, patience).and_then(|mut client| client.get(path)) {
        Ok(reply) => reply.status.to_string(),
        Err(error) => describe(&error),
    }
}

/// Says what an error means for a client.
pub(crate) fn describe(error: &io::Error) -> String {
    use io::ErrorKind as K;
    match error.kind() {
        K::WouldBlock | K::TimedOut => "no answer".to_owned(),
        K::UnexpectedEof => "closed without an answer".to_owned(),
        K::ConnectionReset | K::BrokenPipe => "reset".to_owned(),
        K::ConnectionRefused => "refused".to_owned(),
        _ => error.to_string(),
    }
}

/// Counts equal texts: `18 × 200, 2 × 503`.
pub(crate) fn tally<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    for one in all {
        *counts.entry(one.to_string()).or_default() += 1;
    }
    let all: Vec<_> = counts.iter().map(|(what, count)| format!("{count} × {what}")).collect();
    all.join(", ")
}
