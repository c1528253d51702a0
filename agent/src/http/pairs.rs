//! Requests of the session protocols: names and values, as CGI names them (RFC 3875).

use super::forwarded::{Forwarded, Peer};
use super::request_head::{BadRequest, RequestHead};

/// Appends a request's head: a big-endian u32 length, then names and values, each ended by NUL.
///
/// The caller says the body's length, because it may have read a chunked body already; `None`: unknown.
///
/// # Errors
/// The protocol cannot express the request: its decoded path has a NUL. `out` is then as it was.
pub(crate) fn session_pairs(
    out: &mut Vec<u8>,
    head: &RequestHead,
    peer: &Peer,
    forwarded: &Forwarded,
    password: &str,
    content_length: Option<u64>,
) -> Result<(), BadRequest> {
    let _ = (out, head, peer, forwarded, password, content_length);
    todo!()
}
