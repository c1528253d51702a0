//! An answer: its head, and how its body ends.

use super::body::{Body, Framing, line};
use super::errors::within;
use std::io::{self, BufRead, Read};

/// Fields that an answer has at most once.
const ONCE: [&str; 4] = ["content-length", "transfer-encoding", "date", "connection"];

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The fields in their order. Names are in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, if it has been read.
    pub body: Vec<u8>,
    /// The version is HTTP/1.0.
    is_old: bool,
}

impl Reply {
    /// Reads a whole answer to a request with this method.
    pub fn read(input: &mut impl BufRead, method: &str) -> io::Result<Reply> {
        let mut reply = Reply::read_head(input)?;
        let mut body = Vec::new();
        Body::new(input, reply.framing(method)?).read_to_end(&mut body)?;
        reply.body = body;
        Ok(reply)
    }

    /// Reads a whole answer in CGI's form: fields, of which `Status` is one, and the body up to the end of the connection. A body
    /// that is shorter than its length is an error.
    pub fn read_cgi(input: &mut impl BufRead, method: &str) -> io::Result<Reply> {
        let mut reply = Reply { status: 0, headers: Vec::new(), body: Vec::new(), is_old: true };
        reply.read_fields(input)?;
        let at = reply.headers.iter().position(|(name, _)| name == "status");
        let at = at.ok_or_else(|| io::Error::other("the answer has no status"))?;
        let (_, status) = reply.headers.remove(at);
        let status = status.split(' ').next().and_then(|status| status.parse().ok());
        reply.status = status.ok_or_else(|| io::Error::other("the status is no number"))?;
        input.read_to_end(&mut reply.body)?;
        match reply.framing(method)? {
            Framing::Length(length) if length != reply.body.len() as u64 => {
                Err(io::Error::other("the answer has not its length"))
            }
            _ => Ok(reply),
        }
    }

    /// Reads a head.
    pub fn read_head(input: &mut impl BufRead) -> io::Result<Reply> {
        let first = line(input)?;
        let (version, rest) = first.split_once(' ').unwrap_or_default();
        let status = rest.get(..3).and_then(|status| status.parse().ok());
        let (true, Some(status)) = (matches!(version, "HTTP/1.0" | "HTTP/1.1"), status) else {
            return Err(io::Error::other(format!("the status line {first:?}")));
        };
        let is_old = version == "HTTP/1.0";
        let mut reply = Reply { status, headers: Vec::new(), body: Vec::new(), is_old };
        reply.read_fields(input)?;
        Ok(reply)
    }

    fn read_fields(&mut self, input: &mut impl BufRead) -> io::Result<()> {
        loop {
            let line = line(input).map_err(within)?;
            if line.is_empty() {
                return Ok(());
            }
            let field = line.split_once(':');
            let (name, value) =
                field.ok_or_else(|| io::Error::other(format!("the field {line:?}")))?;
            self.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Returns the first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the status and the beginning of the body, for a message.
    pub fn describe(&self) -> String {
        let text = self.text();
        match text.char_indices().nth(120) {
            Some((end, _)) => format!("{} {:?}", self.status, format!("{}…", &text[..end])),
            None => format!("{} {text:?}", self.status),
        }
    }

    /// Returns whether the server closes the connection behind the answer.
    pub fn closes(&self) -> bool {
        self.has("connection", "close") || self.is_old && !self.has("connection", "keep-alive")
    }

    fn has(&self, name: &str, token: &str) -> bool {
        let mut tokens = self.header(name).unwrap_or_default().split(',').map(str::trim);
        tokens.any(|t| t.eq_ignore_ascii_case(token))
    }

    /// Returns how the body ends. An answer that contradicts itself, or does not say it, is an error.
    pub fn framing(&self, method: &str) -> io::Result<Framing> {
        let wrong = |what: String| Err(io::Error::other(what));
        for once in ONCE {
            if self.headers.iter().filter(|(name, _)| name == once).count() > 1 {
                return wrong(format!("{once} comes twice: {:?}", self.headers));
            }
        }
        if method == "HEAD" || self.status < 200 || matches!(self.status, 204 | 304) {
            return Ok(Framing::Length(0));
        }
        match (self.has("transfer-encoding", "chunked"), self.header("content-length")) {
            (true, Some(_)) => wrong("the answer has two lengths".to_owned()),
            (true, None) => Ok(Framing::Chunked),
            (false, Some(length)) => match length.parse() {
                Ok(length) => Ok(Framing::Length(length)),
                Err(_) => wrong(format!("Content-Length: {length}")),
            },
            (false, None) if self.closes() => Ok(Framing::Close),
            (false, None) => wrong(format!("the answer {} has no length", self.status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(answer: &str) -> Result<(u16, String, bool), String> {
        let reply = Reply::read(&mut answer.as_bytes(), "GET").map_err(|e| e.to_string())?;
        Ok((reply.status, reply.text(), reply.closes()))
    }

    #[test]
    fn each_framing_ends_where_it_says() {
        for (answer, closes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
            ("HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\nContent-Length: 5\r\n\r\nhello", false),
            (
                "HTTP/1.1 200\r\nTRANSFER-ENCODING:chunked\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\n\r\n",
                false,
            ),
            ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", true),
            ("HTTP/1.0 200 OK\r\n\r\nhello", true),
        ] {
            assert_eq!(read(answer), Ok((200, "hello".to_owned(), closes)), "{answer}");
        }
    }

    #[test]
    fn an_answer_without_a_body_leaves_the_next_one() {
        let two = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        let mut input = two.as_bytes();
        assert_eq!(Reply::read(&mut input, "GET").unwrap().status, 103);
        assert_eq!(Reply::read(&mut input, "HEAD").unwrap().header("Content-Length"), Some("9"));
        assert!(input.is_empty());
    }

    #[test]
    fn an_incomplete_answer_is_an_error() {
        let empty = Reply::read(&mut &b""[..], "GET").unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::UnexpectedEof);
        let whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n0\r\n\r\n";
        for size in 1..whole.len() {
            let error = Reply::read(&mut &whole.as_bytes()[..size], "GET").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Other, "{:?}", &whole[..size]);
        }
        assert!(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell").is_err());
    }

    #[test]
    fn an_answer_that_contradicts_itself_is_an_error() {
        for (fields, body) in [
            ("Content-Length: 1\r\nTransfer-Encoding: chunked", "1\r\na\r\n0\r\n\r\n"),
            ("Content-Length: 1\r\nContent-Length: 1", "a"),
            ("Content-Length: -1", ""),
            ("Transfer-Encoding: chunked", "1\r\nab\r\n0\r\n\r\n"),
            ("Transfer-Encoding: chunked", "x\r\na\r\n0\r\n\r\n"),
            ("Server: none", "a"),
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n{body}");
            assert!(read(&answer).is_err(), "{answer}");
        }
        assert!(read("HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n").is_err());
    }
}
