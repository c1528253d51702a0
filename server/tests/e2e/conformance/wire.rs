//! A client that sees each byte: it takes answers of every framing, and notices bytes that are too many.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// A server that is silent for this long has failed the case.
const SILENCE: Duration = Duration::from_secs(8);

pub(super) struct Wire {
    stream: TcpStream,
    /// Bytes that have come, and belong to a later step.
    ahead: Vec<u8>,
}

pub(super) struct Reply {
    pub(super) status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Reply {
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
    pub(super) fn describe(&self) -> String {
        let mut text = self.text();
        if text.len() > 120 {
            text = format!("{}…", text.chars().take(120).collect::<String>());
        }
        format!("{} {text:?}", self.status)
    }
    fn has_token(&self, name: &str, token: &str) -> bool {
        let mut tokens = self.field(name).unwrap_or_default().split(',').map(str::trim);
        tokens.any(|t| t.eq_ignore_ascii_case(token))
    }
}

impl Wire {
    pub(super) fn connect(to: SocketAddr) -> std::io::Result<Wire> {
        let stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, ahead: Vec::new() })
    }

    /// Sends bytes. A server that refuses a request may have closed the connection: its answer tells.
    pub(super) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub(super) fn half_close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads once. Returns `false` at the end.
    fn more(&mut self) -> Result<bool, String> {
        let mut piece = [0; 16384];
        match self.stream.read(&mut piece) {
            Ok(size) => {
                self.ahead.extend_from_slice(&piece[..size]);
                Ok(size > 0)
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(format!("silence after {:?}", String::from_utf8_lossy(&self.ahead)))
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(true),
            Err(e) => Err(format!("{e} after {:?}", String::from_utf8_lossy(&self.ahead))),
        }
    }

    fn take(&mut self, size: usize) -> Result<Vec<u8>, String> {
        while self.ahead.len() < size {
            if !self.more()? {
                let ahead = String::from_utf8_lossy(&self.ahead);
                return Err(format!("closed after {ahead:?}, {size} bytes expected"));
            }
        }
        Ok(self.ahead.drain(..size).collect())
    }

    fn line(&mut self) -> Result<String, String> {
        loop {
            if let Some(end) = self.ahead.windows(2).position(|w| w == b"\r\n") {
                let line = self.take(end + 2)?;
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.more()? {
                let ahead = String::from_utf8_lossy(&self.ahead);
                return Err(match ahead.is_empty() {
                    true => "closed without an answer".to_owned(),
                    false => format!("closed within the line {ahead:?}"),
                });
            }
        }
    }

    /// Reads one answer.
    pub(super) fn reply(&mut self, to_head: bool) -> Result<Reply, String> {
        let first = self.line()?;
        // A server may answer HTTP/1.0 in that version.
        let rest = first.strip_prefix("HTTP/1.1 ").or(first.strip_prefix("HTTP/1.0 "));
        let status = rest.and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| format!("the status line is {first:?}"))?;
        let mut reply = Reply { status, fields: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| format!("the field {line:?}"))?;
            reply.fields.push((name.to_owned(), value.trim().to_owned()));
        }
        for once in ["content-length", "transfer-encoding", "date", "connection"] {
            if reply.fields.iter().filter(|(n, _)| n.eq_ignore_ascii_case(once)).count() > 1 {
                return Err(format!("{once} comes twice: {:?}", reply.fields));
            }
        }
        if to_head || status < 200 || matches!(status, 204 | 304) {
            return Ok(reply);
        }
        if reply.has_token("transfer-encoding", "chunked") {
            if reply.field("content-length").is_some() {
                return Err("the answer has two lengths".to_owned());
            }
            loop {
                let size = self.line()?;
                let size = usize::from_str_radix(&size, 16)
                    .map_err(|_| format!("the chunk size {size:?}"))?;
                let data = self.take(size)?;
                reply.body.extend(data);
                let end = self.line()?;
                if !end.is_empty() {
                    return Err(format!("a chunk ends with {end:?}"));
                }
                if size == 0 {
                    return Ok(reply);
                }
            }
        }
        if let Some(length) = reply.field("content-length") {
            let length = length.parse().map_err(|_| format!("Content-Length: {length}"))?;
            reply.body = self.take(length)?;
            return Ok(reply);
        }
        let is_old = first.starts_with("HTTP/1.0") && !reply.has_token("connection", "keep-alive");
        if !is_old && !reply.has_token("connection", "close") {
            return Err(format!("the answer {} has no length", reply.describe()));
        }
        while self.more()? {}
        reply.body = std::mem::take(&mut self.ahead);
        Ok(reply)
    }

    pub(super) fn expect_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        let got = self.take(bytes.len())?;
        let (got, bytes) = (String::from_utf8_lossy(&got), String::from_utf8_lossy(bytes));
        if got == bytes { Ok(()) } else { Err(format!("expected {bytes:?}, got {got:?}")) }
    }

    /// Expects the end of the connection, and no byte before it.
    pub(super) fn expect_end(&mut self) -> Result<(), String> {
        while self.ahead.is_empty() {
            // A client that still sends may see a reset instead.
            match self.stream.read(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err("a byte after the last answer".to_owned()),
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err("the connection stays open".to_owned()),
            }
        }
        Err(format!("{:?} after the last answer", String::from_utf8_lossy(&self.ahead)))
    }

    /// Reads an answer that must not be complete: to the end, or to a reset.
    pub(super) fn drain(&mut self) -> Result<(), String> {
        match self.reply(false) {
            Ok(reply) => Err(format!("expected half an answer; got {}", reply.describe())),
            Err(why) if why.starts_with("silence") => Err(why),
            Err(_) => Ok(()),
        }
    }
}
