//! The server's parsers, compiled from its own files. The server is a program, so a target cannot import them.
#![allow(dead_code, unused_imports)] // each target uses a part

#[path = "../src/http/chunked.rs"]
pub(crate) mod chunked;
#[path = "../src/http/encode.rs"]
pub(crate) mod encode;
#[path = "../src/http/fields.rs"]
pub(crate) mod fields;
#[path = "../src/http/forwarded.rs"]
pub(crate) mod forwarded;
#[path = "../src/http/host.rs"]
pub(crate) mod host;
#[path = "../../spawner/src/kept.rs"]
pub(crate) mod kept;
#[path = "../src/config/networks.rs"]
pub(crate) mod networks;
#[path = "../src/http/pairs.rs"]
pub(crate) mod pairs;
#[path = "../src/http/proxy_protocol.rs"]
pub(crate) mod proxy_protocol;
#[path = "../src/http/reply_head.rs"]
pub(crate) mod reply_head;
#[path = "../src/http/request_head.rs"]
pub(crate) mod request_head;

/// The paths by which the files name each other.
pub(crate) mod config {
    pub(crate) use super::networks;
}

pub(crate) use kept::MAX_REPLY_HEAD;

use forwarded::{Peer, Scheme};
use reply_head::ReplyHead;
use request_head::{Limits, MAX_FIELDS, RequestHead};

pub(crate) const LIMITS: Limits = Limits { size: 64 * 1024, fields: MAX_FIELDS };

/// A connection from an address in 10.0.0.0/8 or outside of it.
pub(crate) fn peer(from: [u8; 4]) -> Peer {
    Peer { remote: (from, 5555).into(), local: ([127, 0, 0, 1], 3000).into(), scheme: Scheme::Http }
}

/// Returns the input without its first byte, and a place in the rest that the first byte determines.
pub(crate) fn with_cut(input: &[u8]) -> Option<(&[u8], usize)> {
    let (first, rest) = input.split_first()?;
    Some((rest, usize::from(*first) * rest.len() / 256))
}

/// Returns whether the head has a `Host`, of its own or from its target.
pub(crate) fn has_host(head: &RequestHead) -> bool {
    head.values(fields::Name::Host).next().is_some()
}

/// Returns whether two heads have the same bytes and as many fields.
pub(crate) fn are_same_requests(one: &RequestHead, other: &RequestHead) -> bool {
    one.bytes == other.bytes && one.fields.len() == other.fields.len()
}

/// As [`are_same_requests`].
pub(crate) fn are_same_replies(one: &ReplyHead, other: &ReplyHead) -> bool {
    one.bytes == other.bytes && one.fields.len() == other.fields.len()
}

/// Returns whether the fields that the server adds may exceed its own limits.
pub(crate) fn is_nearly_too_large(head: &ReplyHead) -> bool {
    head.fields.len() + 4 > reply_head::MAX_REPLY_FIELDS || head.bytes.len() + 200 > MAX_REPLY_HEAD
}
