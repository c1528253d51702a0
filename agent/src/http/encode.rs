//! The encoders of HTTP heads: replies to clients and requests to applications.
//!
//! Each appends to a buffer that its caller recycles, and allocates nothing otherwise.
//! [`pairs`](super::pairs) encodes requests of the session protocols.

use super::forwarded::{Forwarded, Peer};
use super::reply_head::{ReplyFraming, ReplyHead};
use super::request_head::{AnswerTo, RequestFraming, RequestHead};

/// The interim reply that asks a client for its body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What the field `Connection` of a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionField {
    /// The field is left out: connections of HTTP/1.1 stay open.
    Absent,
    /// `keep-alive`, which a client of HTTP/1.0 needs to hear.
    KeepAlive,
    /// `close`: the agent closes the connection after the reply.
    Close,
}

impl ConnectionField {
    /// Returns the field of a reply after which the agent does what the client asked for.
    pub(crate) fn as_asked(request: &RequestHead) -> Self {
        let _ = request;
        todo!()
    }
}

/// Returns how a reply's body is sent to this client: as it comes, or in chunks if its length is unknown.
///
/// `UntilClose` (a client of HTTP/1.0, and an unknown length) needs [`ConnectionField::Close`].
pub(crate) fn client_framing(reply: &ReplyHead, request: &RequestHead) -> ReplyFraming {
    let _ = (reply, request);
    todo!()
}

/// Appends the head of a reply to a client.
///
/// Hop-by-hop fields and the application's own framing are replaced by `framing` and `connection`. With
/// `ReplyFraming::None`, a `Content-Length` of the application stays where the protocol allows it (HEAD,
/// 304). `Date` is added if it is missing. A reply 101 keeps its `Upgrade`. Interim replies get no fields.
pub(crate) fn reply_head(
    out: &mut Vec<u8>,
    reply: &ReplyHead,
    framing: ReplyFraming,
    connection: ConnectionField,
) {
    let _ = (out, reply, framing, connection);
    todo!()
}

/// Appends the head of a request to an application that speaks HTTP.
///
/// The connection to the application stays open. An `Upgrade` of the client is passed on. [`forwarded`](super::forwarded)
/// says which fields of proxies the application sees.
pub(crate) fn http_request(
    out: &mut Vec<u8>,
    head: &RequestHead,
    peer: &Peer,
    forwarded: &Forwarded,
    body: RequestFraming,
) {
    let _ = (out, head, peer, forwarded, body);
    todo!()
}

/// A whole reply of the agent itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnReply<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a [u8],
    /// More fields: names and values.
    pub(crate) fields: &'a [(&'a str, &'a str)],
}

/// Appends a reply of the agent itself, head and body.
pub(crate) fn own_reply(
    out: &mut Vec<u8>,
    reply: &OwnReply<'_>,
    connection: ConnectionField,
    to: AnswerTo,
) {
    let _ = (out, reply, connection, to);
    todo!()
}

/// Returns the standard's words for a status, or an empty text.
pub(crate) fn reason(status: u16) -> &'static str {
    let _ = status;
    todo!()
}
