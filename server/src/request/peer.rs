//! The connection of a client: its two ends, and its scheme.

use std::net::SocketAddr;

/// The addresses of a client's connection, or those that the head of the PROXY protocol gave for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// `Https` only by the PROXY protocol: the server itself speaks no TLS.
    pub(crate) scheme: Scheme,
    /// Whether the head of the PROXY protocol gave the addresses.
    pub(crate) is_reported: bool,
}

/// The scheme of the client's URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    #[default]
    Http,
    Https,
}

impl Scheme {
    /// Returns `http` or `https`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
    /// Returns the scheme of this name. A WebSocket has the scheme of its handshake.
    pub(crate) fn named(name: &[u8]) -> Option<Scheme> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("https") || is("wss") => Some(Scheme::Https),
            () if is("http") || is("ws") => Some(Scheme::Http),
            () => None,
        }
    }
}
