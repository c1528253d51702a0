//! The protocols that applications speak: HTTP, sessions with one connection a request, and kept sessions.
//!
//! [`pairs`] encodes requests of the session protocols, [`reply_head`] parses heads, and `decoder` decodes answers.

pub(crate) mod decoder;
pub(crate) mod pairs;
pub(crate) mod reply_head;

/// The longest head of a reply, in bytes: Passenger's own limit for Ruby.
pub(crate) use cabrank_spawner::kept::MAX_REPLY_HEAD;
