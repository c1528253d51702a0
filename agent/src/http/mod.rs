//! HTTP types that the front and the connections to application processes share.
//!
//! Parsers and encoders of heads and bodies work on bytes, without I/O. [`spool`] holds bodies and answers that
//! wait.
//! Imports go one way: [`front`](crate::front) → [`app`](crate::app) → `http`.

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

pub(crate) use reply_head::MAX_REPLY_HEAD;
