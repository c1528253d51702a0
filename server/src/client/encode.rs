//! The encoders of HTTP heads: replies to clients and requests to applications.
//!
//! Each appends to a buffer that its caller recycles, and allocates nothing otherwise.
//! [`pairs`](crate::lane::pairs) encodes requests of the session protocols.

use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::fields::{Name, put_field, put_length};
use crate::request::head::{AnswerTo, RequestHead, Version};
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
    /// Returns the field of a reply after which the server does what the client asked for.
    pub(crate) fn as_asked(request: &RequestHead) -> Self {
        match (request.keeps_alive(), request.version()) {
            (false, _) => ConnectionField::Close,
            (true, Version::Http10) => ConnectionField::KeepAlive,
            (true, Version::Http11) => ConnectionField::Absent,
        }
    }

    fn put(self, out: &mut Vec<u8>) {
        match self {
            ConnectionField::Absent => {}
            ConnectionField::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
            ConnectionField::Close => out.extend_from_slice(b"Connection: close\r\n"),
        }
    }
}

/// Returns how a reply's body is sent to this client: as it comes, or in chunks if its length is unknown.
///
/// `UntilClose` (a client of HTTP/1.0, and an unknown length) needs [`ConnectionField::Close`].
pub(crate) fn client_framing(reply: &ReplyHead, request: &RequestHead) -> ReplyFraming {
    match (reply.framing(), request.version()) {
        (ReplyFraming::Chunked | ReplyFraming::UntilClose, Version::Http11) => {
            ReplyFraming::Chunked
        }
        (ReplyFraming::Chunked | ReplyFraming::UntilClose, Version::Http10) => {
            ReplyFraming::UntilClose
        }
        (framing, _) => framing,
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
    if reply.switches_protocols() {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    } else if !reply.is_interim() {
        connection.put(out);
    }
    out.extend_from_slice(b"\r\n");
}

/// A whole reply of the server itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnReply<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
    /// More fields: names and values.
    pub(crate) fields: &'a [(&'a str, &'a str)],
}

/// Appends a reply of the server itself, head and body. A reply to HEAD has no body.
pub(crate) fn own_reply(
    out: &mut Vec<u8>,
    reply: &OwnReply<'_>,
    connection: ConnectionField,
    to: AnswerTo,
) {
    status_line(out, reply.status, reason(reply.status).as_bytes());
    for (name, value) in [("Content-Type", reply.content_type)].iter().chain(reply.fields) {
        debug_assert!(!value.contains(['\r', '\n']), "a field has one line");
        let _ = write!(out, "{name}: {value}\r\n");
    }
    put_length(out, reply.body.len() as u64);
    put_date(out);
    connection.put(out);
    out.extend_from_slice(b"\r\n");
    if to == AnswerTo::Other {
        out.extend_from_slice(reply.body);
    }
}

fn status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    let _ = write!(out, "HTTP/1.1 {status} ");
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

/// Returns the standard's words for a status, or an empty text.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Payload Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Entity",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
