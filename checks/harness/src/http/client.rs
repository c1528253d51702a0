//! One connection: sends requests whole or in pieces, and reads their answers.

use super::body::Body;
use super::reply::Reply;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A server that is silent for this long does not answer at all.
const PATIENCE: Duration = Duration::from_secs(40);

/// A client with one connection.
#[derive(Debug)]
pub struct Client<S: Read = TcpStream> {
    /// The connection. Its buffer has the bytes that were read ahead.
    pub stream: BufReader<S>,
}

/// A stream whose two directions end apart.
pub trait Socket: Read + Write {
    /// Ends the client's side.
    fn end_output(&self) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn end_output(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Socket for UnixStream {
    fn end_output(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Client<UnixStream> {
    /// Connects to a Unix socket, for a client that waits for each byte no longer than this.
    pub fn over_unix(path: &Path, patience: Duration) -> io::Result<Client<UnixStream>> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Client { stream: BufReader::new(stream) })
    }
}

impl Client {
    /// Connects to a server.
    pub fn connect(to: SocketAddr) -> io::Result<Client> {
        Client::with_patience(to, PATIENCE)
    }

    /// Connects to a server, for a client that waits for each byte no longer than this.
    pub fn with_patience(to: SocketAddr, patience: Duration) -> io::Result<Client> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.set_nodelay(true)?;
        Ok(Client { stream: BufReader::new(stream) })
    }
}

impl<S: Socket> Client<S> {
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Ends the client's side of the connection.
    pub fn half_close(&mut self) -> io::Result<()> {
        self.stream.get_ref().end_output()
    }

    /// Sends a GET, and leaves its answer.
    pub fn ask(&mut self, path: &str) -> io::Result<()> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
    }

    /// Sends a GET, and returns its answer.
    pub fn get(&mut self, path: &str) -> io::Result<Reply> {
        self.request("GET", path, &[], b"")
    }

    /// Sends a request with these fields, and returns its answer. The host is `localhost` if no field names it.
    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<Reply> {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.send(head.as_bytes())?;
        // A server that refuses the body may close early: its answer tells.
        let sent = self.send(body);
        self.reply(method).or_else(|error| sent.and(Err(error)))
    }

    /// Reads the answer to a request with this method.
    pub fn reply(&mut self, method: &str) -> io::Result<Reply> {
        Reply::read(&mut self.stream, method)
    }

    /// Reads the head of an answer.
    pub fn head(&mut self) -> io::Result<Reply> {
        Reply::read_head(&mut self.stream)
    }

    /// Returns the body behind the head of an answer to a GET, to read it as it comes.
    pub fn body(&mut self, head: &Reply) -> io::Result<Body<'_, BufReader<S>>> {
        let framing = head.framing("GET")?;
        Ok(Body::new(&mut self.stream, framing))
    }

    /// Expects these bytes, which are no answer.
    pub fn expect_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut got = vec![0; bytes.len()];
        self.stream.read_exact(&mut got).map_err(|e| e.to_string())?;
        let (got, bytes) = (String::from_utf8_lossy(&got), String::from_utf8_lossy(bytes));
        if got == bytes { Ok(()) } else { Err(format!("expected {bytes:?}, got {got:?}")) }
    }

    /// Expects the end of the connection, and no byte before it.
    pub fn expect_end(&mut self) -> Result<(), String> {
        loop {
            // A client that still sends may see a reset instead.
            match self.stream.read(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err("a byte after the last answer".to_owned()),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("the connection stays open".to_owned()),
            }
        }
    }
}
