//! HTTP types that the front and the connections to application processes share.
//!
//! [`upload`] is the body of a request, and [`patience`] limits how long the agent waits for a client.
//! Imports go one way: [`front`](crate::front) → [`app`](crate::app) → `http`.

// The request path does not use the codec yet.
#![allow(dead_code)]

pub(crate) mod chunked;
pub(crate) mod encode;
pub(crate) mod fields;
pub(crate) mod forwarded;
pub(crate) mod host;
pub(crate) mod pairs;
pub(crate) mod patience;
pub(crate) mod proxy_protocol;
pub(crate) mod reply_head;
pub(crate) mod request_head;
pub(crate) mod spool;
pub(crate) mod upload;

pub(crate) use reply_head::{MAX_REPLY_FIELDS, MAX_REPLY_HEAD};

/// An error of a body: hyper takes any.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;
