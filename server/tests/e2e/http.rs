//! A small blocking HTTP/1.1 client. It reports an error for every incomplete answer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

fn broken(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(Duration::from_secs(40)))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.request("GET", path, &[], b"")
    }

    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: test\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes())?;
        self.send(body)?;
        self.reply(method)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None => Err(broken(format!("the connection closed within the line {line:?}"))),
        }
    }

    pub(crate) fn reply(&mut self, method: &str) -> io::Result<Reply> {
        let mut reply = self.head()?;
        if method == "HEAD" || matches!(reply.status, 101 | 204 | 304) {
            return Ok(reply);
        }
        if reply.header("transfer-encoding") == Some("chunked") {
            loop {
                let size = self.line()?;
                let size = usize::from_str_radix(&size, 16).map_err(|_| broken("bad chunk"))?;
                let start = reply.body.len();
                reply.body.resize(start + size, 0);
                self.stream.read_exact(&mut reply.body[start..])?;
                self.line()?;
                if size == 0 {
                    return Ok(reply);
                }
            }
        }
        let length = reply.header("content-length").and_then(|l| l.parse().ok());
        reply.body.resize(length.ok_or_else(|| broken("the answer has no length"))?, 0);
        self.stream.read_exact(&mut reply.body)?;
        Ok(reply)
    }

    pub(crate) fn head(&mut self) -> io::Result<Reply> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|s| s.parse().ok());
        let status = status.ok_or_else(|| broken(format!("bad status line {first:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Reply { status, headers, body: Vec::new() });
            }
            let (name, value) = line.split_once(": ").ok_or_else(|| broken("bad header"))?;
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
}

/// A load of keep-alive connections that GET one path until [`stop`](Load::stop).
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

/// The results of a load.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) answered: usize,
    /// The failures, each with its reason.
    pub(crate) failed: Vec<String>,
    /// The longest time between a request and its answer.
    pub(crate) longest: Duration,
    /// The distinct answers.
    pub(crate) texts: std::collections::BTreeSet<String>,
}

impl Load {
    pub(crate) fn start(to: SocketAddr, path: &'static str, connections: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..connections)
            .map(|_| {
                let stop = Arc::clone(&stop);
                std::thread::spawn(move || one(to, path, &stop))
            })
            .collect();
        Load { stop, threads }
    }

    pub(crate) fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        for thread in self.threads {
            let seen = thread.join().unwrap();
            all.answered += seen.answered;
            all.failed.extend(seen.failed);
            all.longest = all.longest.max(seen.longest);
            all.texts.extend(seen.texts);
        }
        all
    }
}

fn one(to: SocketAddr, path: &str, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut client = Client::connect(to).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let reply = client.get(path);
        seen.longest = seen.longest.max(asked.elapsed());
        match reply {
            Ok(reply) if reply.status == 200 => {
                seen.answered += 1;
                seen.texts.insert(reply.text());
            }
            Ok(reply) => seen.failed.push(format!("{}: {}", reply.status, reply.text())),
            Err(e) => {
                seen.failed.push(e.to_string());
                match Client::connect(to) {
                    Ok(again) => client = again,
                    Err(_) => break,
                }
            }
        }
    }
    seen
}
