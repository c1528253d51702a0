//! The protocols of clients.
//!
//! [`http1`] is HTTP/1.0 and 1.1, and [`scgi`] is what web servers speak to an application server. The head of the [PROXY protocol](proxy_protocol) may come before any protocol.
//!
//! A new protocol is a file with the functions of [`Http1`] and a parser of heads. It is a variant of [`Protocol`] and of
//! [`Side`], and each `match` in this file lists a function that it needs.

pub(crate) mod http1;
mod page;
pub(crate) mod proxy_protocol;
pub(crate) mod scgi;
pub(crate) mod status;

use crate::client::http1::Http1;
use crate::client::http1::parse::{Limits, MAX_FIELDS, Parser};
use crate::client::scgi::Scgi;
use crate::lane::reply_head::ReplyHead;
use crate::request::head::{AnswerTo, BadRequest, Head};
pub(crate) use page::Page;

/// The protocol that the clients of one listener speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Scgi,
}

impl Protocol {
    /// Returns the side of a client whose head the server cannot read, or does not. It gets one page, and then the connection
    /// closes.
    pub(crate) fn unreadable(self) -> Side {
        match self {
            Protocol::Http1 => Side::Http1(Http1::unreadable()),
            Protocol::Scgi => Side::Scgi(Scgi),
        }
    }
}

/// Parses heads: one after another of one connection, and then of another connection.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    http1: Parser,
}

impl Heads {
    /// Parses a head at the start of `input`, which has at most `max_size` bytes. Returns its size and the client's side;
    /// `None`: the head is incomplete.
    ///
    /// While the head is incomplete, the caller passes the same bytes again with those that have arrived since. A caller that
    /// gives up an incomplete head calls [`clear`](Self::clear).
    ///
    /// # Errors
    /// The request is malformed, ambiguous or too large. The connection cannot be used again.
    pub(crate) fn parse(
        &mut self,
        protocol: Protocol,
        head: &mut Head,
        input: &[u8],
        max_size: usize,
    ) -> Result<Option<(usize, Side)>, BadRequest> {
        match protocol {
            Protocol::Http1 => {
                let limits = Limits { size: max_size, fields: MAX_FIELDS };
                let parsed = self.http1.parse(head, input, &limits)?;
                Ok(parsed.map(|(size, http1)| (size, Side::Http1(http1))))
            }
            Protocol::Scgi => {
                let parsed = scgi::parse::parse(head, input, max_size)?;
                Ok(parsed.map(|size| (size, Side::Scgi(Scgi))))
            }
        }
    }

    /// Forgets an incomplete head.
    pub(crate) fn clear(&mut self) {
        let Heads { http1 } = self;
        http1.clear();
    }
}

/// The client's side of one request: how its answer is written.
///
/// Each function appends to a buffer that its caller recycles.
#[derive(Debug)]
pub(crate) enum Side {
    Http1(Http1),
    Scgi(Scgi),
}

impl Side {
    /// Returns the bytes that ask the client for its body, if it waits for them.
    pub(crate) fn go_ahead(&self) -> Option<&'static [u8]> {
        match self {
            Side::Http1(http1) => http1.go_ahead(),
            Side::Scgi(_) => None,
        }
    }

    /// Appends an interim answer, if the client understands it.
    pub(crate) fn push_interim(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        match self {
            Side::Http1(http1) => http1.push_interim(out, reply),
            Side::Scgi(_) => {}
        }
    }

    /// Appends the head of the answer. `closes`: the connection closes after it.
    pub(crate) fn push_head(&mut self, out: &mut Vec<u8>, reply: &ReplyHead, closes: bool) {
        match self {
            Side::Http1(http1) => http1.push_head(out, reply, closes),
            Side::Scgi(scgi) => scgi.push_head(out, reply),
        }
    }

    /// Appends a part of the answer's body, which is not empty.
    pub(crate) fn push_body(&self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Side::Http1(http1) => http1.push_body(out, part),
            Side::Scgi(_) => out.extend_from_slice(part),
        }
    }

    /// Appends the mark that ends the answer's body.
    pub(crate) fn push_end(&self, out: &mut Vec<u8>) {
        match self {
            Side::Http1(http1) => http1.push_end(out),
            Side::Scgi(_) => {}
        }
    }

    /// Appends the head after which the connection speaks another protocol.
    pub(crate) fn push_switch(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        match self {
            Side::Http1(http1) => http1.push_switch(out, reply),
            Side::Scgi(scgi) => scgi.push_head(out, reply),
        }
    }

    /// Appends a whole answer of the server itself. `closes`: the connection closes after it.
    pub(crate) fn push_page(
        &mut self,
        out: &mut Vec<u8>,
        page: &Page<'_>,
        to: AnswerTo,
        closes: bool,
    ) {
        match self {
            Side::Http1(http1) => http1.push_page(out, page, to, closes),
            Side::Scgi(scgi) => scgi.push_page(out, page, to),
        }
    }

    /// Returns whether the client reads its answer only after it has sent the whole body.
    ///
    /// `mod_proxy_scgi` of Apache does: an earlier answer with the end of the connection is an error for it.
    pub(crate) fn sends_before_it_reads(&self) -> bool {
        match self {
            Side::Http1(_) => false,
            Side::Scgi(_) => true,
        }
    }

    /// Returns whether the connection can carry another request after the answer.
    pub(crate) fn stays(&self) -> bool {
        match self {
            Side::Http1(http1) => http1.stays(),
            Side::Scgi(_) => false,
        }
    }
}
