//! The protocols that clients speak: each decision on the protocol of a client is made here.
//!
//! [`http1`] is HTTP/1.0 and 1.1. The head of the [PROXY protocol](proxy_protocol) may come before any of them.
//!
//! A new protocol is a folder as `http1`: a type with the functions of [`Http1`](http1::Http1), which is a variant of
//! [`Side`], and a loop that reads heads. [`connection::serve`](crate::connection::serve) calls the loop.

pub(crate) mod http1;
mod page;
pub(crate) mod proxy_protocol;
pub(crate) mod status;

use crate::client::http1::Http1;
use crate::lane::reply_head::ReplyHead;
use crate::request::head::AnswerTo;
pub(crate) use page::Page;

/// The client's side of one request: how its answer is written.
///
/// Each function appends to a buffer that its caller recycles.
#[derive(Debug)]
pub(crate) enum Side {
    Http1(Http1),
}

impl Side {
    /// Returns the bytes that ask the client for its body, if it waits for them.
    pub(crate) fn go_ahead(&self) -> Option<&'static [u8]> {
        match self {
            Side::Http1(http1) => http1.go_ahead(),
        }
    }

    /// Appends an interim answer, if the client understands it.
    pub(crate) fn push_interim(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        match self {
            Side::Http1(http1) => http1.push_interim(out, reply),
        }
    }

    /// Appends the head of the answer. `closes`: the connection closes after it.
    pub(crate) fn push_head(&mut self, out: &mut Vec<u8>, reply: &ReplyHead, closes: bool) {
        match self {
            Side::Http1(http1) => http1.push_head(out, reply, closes),
        }
    }

    /// Appends a part of the answer's body, which is not empty.
    pub(crate) fn push_body(&self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Side::Http1(http1) => http1.push_body(out, part),
        }
    }

    /// Appends the mark that ends the answer's body.
    pub(crate) fn push_end(&self, out: &mut Vec<u8>) {
        match self {
            Side::Http1(http1) => http1.push_end(out),
        }
    }

    /// Appends the head after which the connection speaks another protocol.
    pub(crate) fn push_switch(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        match self {
            Side::Http1(http1) => http1.push_switch(out, reply),
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
        }
    }

    /// Returns whether the connection can carry another request after the answer.
    pub(crate) fn stays(&self) -> bool {
        match self {
            Side::Http1(http1) => http1.stays(),
        }
    }
}
