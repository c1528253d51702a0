//! The addresses of a request behind proxies: `X-Forwarded-*`, `Forwarded`, and the PROXY protocol.

use super::request_head::RequestHead;
use std::net::{IpAddr, SocketAddr};

/// The addresses of a client's connection, or those that the head of the PROXY protocol gave for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) remote: SocketAddr,
    pub(crate) local: SocketAddr,
    /// `Https` only by the PROXY protocol: the agent itself speaks no TLS.
    pub(crate) scheme: Scheme,
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
}

/// The addresses of proxies that tell the truth: the option `--trusted-proxies`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrustedProxies {
    networks: Vec<(IpAddr, u8)>,
}

impl TrustedProxies {
    /// Returns whether this address is one of a trusted proxy.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let _ = address;
        todo!()
    }
}

impl std::str::FromStr for TrustedProxies {
    type Err = &'static str;
    /// Parses addresses and networks (`10.0.0.0/8`), separated by commas or white space.
    fn from_str(text: &str) -> Result<Self, &'static str> {
        let _ = text;
        todo!()
    }
}

/// What the agent believes about the origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// The client's address.
    pub(crate) remote: IpAddr,
    /// The client's port; 0: unknown.
    pub(crate) remote_port: u16,
    pub(crate) scheme: Scheme,
    /// Whether the request comes from a trusted proxy. Otherwise the application must not see the fields
    /// that only a proxy may set.
    pub(crate) from_proxy: bool,
}

impl Forwarded {
    /// Determines the origin of a request that came over this connection.
    pub(crate) fn of(head: &RequestHead, peer: &Peer, trusted: &TrustedProxies) -> Forwarded {
        let _ = (head, peer, trusted);
        todo!()
    }
}

/// The start of a connection, as far as the PROXY protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyHead {
    /// The bytes so far may be the start of a head.
    Incomplete,
    /// The connection begins with another protocol.
    Absent,
    /// A head of `size` bytes. `peer`: the addresses of the original connection; `None`: the proxy
    /// speaks for itself, for example to check the agent's health.
    Present { size: usize, peer: Option<Peer> },
}

/// Parses the head of the PROXY protocol, version 1 or 2. Only trusted proxies may send it.
///
/// # Errors
/// The bytes begin such a head, and the rest is malformed. The text is for the log.
pub(crate) fn proxy_head(input: &[u8]) -> Result<ProxyHead, &'static str> {
    let _ = input;
    todo!()
}
