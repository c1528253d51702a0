//! HTTP/1.0 and HTTP/1.1.
//!
//! [`parse`] reads heads, and [`encode`] writes them. [`Http1`] is the client's side of one request.

pub(crate) mod encode;
pub(crate) mod parse;

use crate::client::http1::encode::ConnectionField;
use crate::client::page::Page;
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::chunked;
use crate::request::fields::Wishes;
use crate::request::head::{AnswerTo, Version};

/// The client's side of one request.
#[derive(Debug)]
pub(crate) struct Http1 {
    version: Version,
    /// Whether the client keeps its connection open after the answer.
    keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
    /// How the end of the answer's body shows.
    framing: ReplyFraming,
    /// Whether the answer says that the connection closes.
    closes: bool,
}

impl Http1 {
    pub(crate) fn new(version: Version, wishes: Wishes, expects_continue: bool) -> Self {
        let keeps_alive = !wishes.close && (version == Version::Http11 || wishes.keep_alive);
        let (framing, closes) = (ReplyFraming::None, false);
        Http1 { version, keeps_alive, expects_continue, framing, closes }
    }

    /// Returns the side of a client whose head cannot be read. It gets one page, and then the connection closes.
    pub(crate) fn unreadable() -> Self {
        Http1::new(Version::Http11, Wishes { close: true, ..Wishes::default() }, false)
    }

    pub(crate) fn go_ahead(&self) -> Option<&'static [u8]> {
        self.expects_continue.then_some(encode::CONTINUE)
    }

    pub(crate) fn push_interim(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        // The server has answered `Expect` itself, and HTTP/1.0 has no interim answers.
        if reply.status() != 100 && self.version == Version::Http11 {
            encode::reply_head(out, reply, ReplyFraming::None, ConnectionField::Absent);
        }
    }

    pub(crate) fn push_head(&mut self, out: &mut Vec<u8>, reply: &ReplyHead, closes: bool) {
        self.framing = match (reply.framing(), self.version) {
            (ReplyFraming::Chunked | ReplyFraming::UntilClose, Version::Http11) => {
                ReplyFraming::Chunked
            }
            (ReplyFraming::Chunked | ReplyFraming::UntilClose, Version::Http10) => {
                ReplyFraming::UntilClose
            }
            (framing, _) => framing,
        };
        self.closes = closes || self.framing == ReplyFraming::UntilClose;
        encode::reply_head(out, reply, self.framing, self.connection_field());
    }

    pub(crate) fn push_body(&self, out: &mut Vec<u8>, part: &[u8]) {
        match self.framing {
            ReplyFraming::Chunked => chunked::push(out, part),
            _ => out.extend_from_slice(part),
        }
    }

    pub(crate) fn push_end(&self, out: &mut Vec<u8>) {
        if self.framing == ReplyFraming::Chunked {
            out.extend_from_slice(chunked::END);
        }
    }

    pub(crate) fn push_switch(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        encode::reply_head(out, reply, ReplyFraming::None, ConnectionField::Absent);
    }

    pub(crate) fn push_page(
        &mut self,
        out: &mut Vec<u8>,
        page: &Page<'_>,
        to: AnswerTo,
        closes: bool,
    ) {
        self.closes = closes;
        encode::page(out, page, self.connection_field(), to);
    }

    pub(crate) fn stays(&self) -> bool {
        self.keeps_alive && !self.closes
    }

    /// Returns the field of an answer after which the server does what the client asked for, or closes.
    fn connection_field(&self) -> ConnectionField {
        match self.version {
            _ if !self.stays() => ConnectionField::Close,
            Version::Http10 => ConnectionField::KeepAlive,
            Version::Http11 => ConnectionField::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::http1::parse::parsed;

    #[test]
    fn a_body_of_unknown_length_goes_in_chunks_or_until_the_end() {
        for (fields, to_new, to_old) in [
            ("Content-Length: 3", ReplyFraming::Length(3), ReplyFraming::Length(3)),
            ("Transfer-Encoding: chunked", ReplyFraming::Chunked, ReplyFraming::UntilClose),
            ("X: 1", ReplyFraming::Chunked, ReplyFraming::UntilClose),
        ] {
            for (request, framing) in [
                ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", to_new),
                ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", to_old),
            ] {
                let mut reply = ReplyHead::default();
                let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
                reply.parse_http(input.as_bytes(), AnswerTo::Other).unwrap().unwrap();
                let (_, mut side) = parsed(request);
                side.push_head(&mut Vec::new(), &reply, false);
                let stays = framing != ReplyFraming::UntilClose;
                assert_eq!((side.framing, side.stays()), (framing, stays), "{request} {fields}");
            }
        }
    }

    #[test]
    fn the_answer_says_whether_the_connection_closes() {
        for (request, closes, field, stays) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false, ConnectionField::Absent, true),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true, ConnectionField::Close, false),
            (
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                false,
                ConnectionField::Close,
                false,
            ),
            ("GET / HTTP/1.0\r\n\r\n", false, ConnectionField::Close, false),
            (
                "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                false,
                ConnectionField::KeepAlive,
                true,
            ),
        ] {
            let (_, mut side) = parsed(request);
            side.closes = closes;
            assert_eq!((side.connection_field(), side.stays()), (field, stays), "{request}");
        }
        assert!(!Http1::unreadable().stays());
    }
}
