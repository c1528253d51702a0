//! The HTTP client: small, blocking, and strict. An incomplete or contradictory answer is an error.

pub mod body;
pub mod client;
pub mod errors;
pub mod load;
pub mod reply;
pub mod scgi;

pub use client::{Client, Socket};
pub use errors::{describe, is_silence};
pub use load::{Load, Seen};
pub use reply::Reply;
pub use scgi::scgi_head;
