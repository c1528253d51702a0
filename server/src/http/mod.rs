//! HTTP, and the heads of the session protocol.
//!
//! Parsers and encoders of heads and bodies work on bytes, without I/O. [`spool`] holds bodies and answers that
//! wait.

pub(crate) mod chunked;
pub(crate) mod encode;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod host;
pub(crate) mod pairs;
pub(crate) mod proxy_protocol;
pub(crate) mod reply_head;
pub(crate) mod request_head;
pub(crate) mod spool;

/// The longest head of a reply, in bytes: Passenger's own limit for Ruby.
pub(crate) use cabrank_spawner::kept::MAX_REPLY_HEAD;
