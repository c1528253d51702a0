//! The encoders of HTTP/1 heads: answers to clients.
//!
//! Each appends to a buffer that its caller recycles, and does not allocate otherwise.

use crate::client::page::Page;
use crate::client::status::reason;
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::fields::{Name, put_field, put_length};
use crate::request::head::AnswerTo;
use crate::request::numbers::put_number;
use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The interim reply that asks a client for its body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The value of the field `Connection` of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionField {
    /// The field is left out: connections of HTTP/1.1 stay open.
    Absent,
    /// `keep-alive`, which a client of HTTP/1.0 needs to hear.
    KeepAlive,
    /// `close`: the server closes the connection after the reply.
    Close,
}

impl ConnectionField {
    fn put(self, out: &mut Vec<u8>) {
        match self {
            ConnectionField::Absent => {}
            ConnectionField::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            ConnectionField::Close => out.extend_from_slice(b"Connection: close\r\n"),
        }
    }
}

/// Appends the head of a reply to a client.
///
/// Hop-by-hop fields and the application's own framing are replaced by `framing` and `connection`. With
/// `ReplyFraming::None`, a `Content-Length` of the application stays where the protocol allows it (HEAD,
/// 304). `Date` is added if it is missing. Interim replies get neither. A reply 101 keeps its `Upgrade`.
pub(crate) fn reply_head(
    out: &mut Vec<u8>,
    reply: &ReplyHead,
    framing: ReplyFraming,
    connection: ConnectionField,
) {
    let status = reply.status();
    let own = reply.reason();
    status_line(out, status, if own.is_empty() { reason(status).as_bytes() } else { own });
    reply_fields(out, reply, framing);
    if reply.switches_protocols() {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if !reply.is_interim() {
        connection.put(out);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the fields of a reply, as [`reply_head`] has them, but without `Connection`.
pub(crate) fn reply_fields(out: &mut Vec<u8>, reply: &ReplyHead, framing: ReplyFraming) {
    let status = reply.status();
    let mut keeps_length = framing == ReplyFraming::None && status >= 200 && status != 204;
    let mut needs_date = status >= 200;
    for field in &reply.fields {
        match field.known {
            Name::Upgrade if reply.switches_protocols() => {}
            _ if field.is_hop_by_hop => continue,
            Name::Status => continue,
            // Lengths that differ were refused, so the first one says it all.
            Name::ContentLength if !std::mem::take(&mut keeps_length) => continue,
            Name::Date => needs_date = false,
            _ => {}
        }
        put_field(out, &reply.bytes, field);
    }
    match framing {
        ReplyFraming::Length(length) => put_length(out, length),
        ReplyFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        ReplyFraming::None | ReplyFraming::UntilClose => {}
    }
    if needs_date {
        put_date(out);
    }
}

/// Appends a page, head and body. A reply to HEAD has no body.
pub(crate) fn page(out: &mut Vec<u8>, page: &Page<'_>, connection: ConnectionField, to: AnswerTo) {
    status_line(out, page.status, reason(page.status).as_bytes());
    page_fields(out, page);
    connection.put(out);
    out.extend_from_slice(b"\r\n");
    if to == AnswerTo::Other {
        out.extend_from_slice(page.body);
    }
}

/// Appends the fields of a page, except `Connection`.
pub(crate) fn page_fields(out: &mut Vec<u8>, page: &Page<'_>) {
    for (name, value) in [("Content-Type", page.content_type)].iter().chain(page.fields) {
        debug_assert!(!value.contains(['\r', '\n']), "a field has one line");
        let _ = write!(out, "{name}: {value}\r\n");
    }
    put_length(out, page.body.len() as u64);
    put_date(out);
}

fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    out.extend_from_slice(b"HTTP/1.1 ");
    put_number(out, status);
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// The length of a date, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
const DATE: usize = 29;

/// Appends `Date`. Its text changes once a second, so each thread keeps the last one.
fn put_date(out: &mut Vec<u8>) {
    thread_local! {
        static LAST: Cell<(u64, [u8; DATE])> = const { Cell::new((u64::MAX, [b' '; DATE])) };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut second, mut text) = LAST.get();
    if second != now {
        second = now;
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(now));
        let _ = write!(&mut text[..], "{date}");
        LAST.set((second, text));
    }
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(&text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
