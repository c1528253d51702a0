//! The protocols that clients speak: HTTP/1, and the head of the [PROXY protocol](proxy_protocol).

pub(crate) mod encode;
pub(crate) mod proxy_protocol;
