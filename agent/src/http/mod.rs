//! HTTP types that the front and the connections to application processes share.
//!
//! [`upload`] is the body of a request, and [`patience`] limits how long the agent waits for a client.
//! Imports go one way: [`front`](crate::front) → [`app`](crate::app) → `http`.

pub(crate) mod patience;
pub(crate) mod upload;

/// The longest head of a reply, in bytes: Passenger's own limit for Ruby.
pub(crate) const MAX_REPLY_HEAD: usize = 128 * 1024;
/// The largest number of header fields in a reply.
pub(crate) const MAX_REPLY_FIELDS: usize = 256;

/// An error of a body: hyper takes any.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
