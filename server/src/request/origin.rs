//! The origin of a request: the client's address and scheme, also behind proxies.
//!
//! Only the connection's own address is certain. A proxy reports the address and scheme of its client in
//! fields, but so can any client. So the server believes only the proxies that it [trusts](crate::request::trust):
//!
//! | field | from a trusted proxy | from another client |
//! |---|---|---|
//! | `X-Forwarded-For` | gives the address | passed on by CGI's variables and to other HTTP servers, and believed by no part of the server; else left out |
//! | `X-Forwarded-Proto` | gives the scheme | left out |
//! | `Forwarded` | gives both, if none of the two above is there | left out |
//! | other `X-Forwarded-*`, `X-Url-Scheme`, `Front-End-Https` | passed on | left out |
//! | such a name with `_` in place of `-` | left out | left out |
//!
//! So a client without a trusted proxy can forge neither `wsgi.url_scheme` and `REMOTE_ADDR`, nor what
//! frameworks derive from these fields. A loader that speaks HTTP gets the origin in front of the target. A program that
//! speaks HTTP itself sees the server as its client: the server appends the address of its own client to `X-Forwarded-For`
//! and sets `X-Forwarded-Proto`.
//!
//! A list of addresses is read from its end, where the nearest proxy has added its client, up to the first
//! address that is not a trusted proxy. A client's own entries stand before that, and do not count. The
//! scheme is the one of the same place, or the first if that list is shorter. A trusted proxy must set or
//! remove the fields of its clients.
//!
//! [`proxy_protocol`](crate::client::proxy_protocol) parses the other way that proxies have to report an address.

use crate::request::fields::{Name, tokens};
use crate::request::head::Head;
use crate::request::peer::{Peer, Scheme};
use crate::request::trust::Trust;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The largest number of proxies that a `Forwarded` is followed through.
const MAX_HOPS: usize = 16;

/// The origin of a request, as far as the server believes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// The client's address.
    pub(crate) remote: IpAddr,
    /// The client's port; 0: unknown.
    pub(crate) remote_port: u16,
    pub(crate) scheme: Scheme,
    /// Whether the request comes from a trusted proxy. Otherwise the application does not see the fields
    /// that only a proxy may set.
    pub(crate) from_proxy: bool,
}

impl Forwarded {
    /// Determines the origin of a request that came over this connection.
    pub(crate) fn of(head: &Head, peer: &Peer, trust: &Trust) -> Forwarded {
        let remote = peer.remote.ip().to_canonical();
        let from_proxy = trust.is_proxy(remote, peer.is_reported);
        let remote_port = peer.remote.port();
        let mut origin = Forwarded { remote, remote_port, scheme: peer.scheme, from_proxy };
        if !from_proxy {
            return origin;
        }
        let mut known = head.fields.iter().map(|field| field.known);
        if known.any(|name| matches!(name, Name::ForwardedFor | Name::ForwardedProto)) {
            origin.read_lists(head, trust);
        } else {
            origin.read_elements(head, trust);
        }
        origin
    }

    /// Takes the address that the next proxy reports. Returns whether that is a proxy, too.
    fn follow(&mut self, (address, port): (IpAddr, u16), trust: &Trust) -> bool {
        (self.remote, self.remote_port) = (address.to_canonical(), port);
        trust.follows(address)
    }

    /// Reads `X-Forwarded-For` and `X-Forwarded-Proto`.
    fn read_lists(&mut self, head: &Head, trust: &Trust) {
        let mut place = 0;
        let addresses = head.values(Name::ForwardedFor).rev().flat_map(|list| tokens(list).rev());
        for (i, address) in addresses.enumerate() {
            let Some(address) = node(address) else { break };
            place = i;
            if !self.follow(address, trust) {
                break;
            }
        }
        let schemes = head.values(Name::ForwardedProto).rev().flat_map(|list| tokens(list).rev());
        if let Some(scheme) = schemes.take(place + 1).last().and_then(Scheme::named) {
            self.scheme = scheme;
        }
    }

    /// Reads `Forwarded` (RFC 7239): a list of elements, each with `for` and `proto`.
    fn read_elements(&mut self, head: &Head, trust: &Trust) {
        let mut last: [&[u8]; MAX_HOPS] = [&[]; MAX_HOPS];
        let mut count = 0;
        for element in head.values(Name::Forwarded).flat_map(|list| unquoted_split(list, b',')) {
            last[count % MAX_HOPS] = element;
            count += 1;
        }
        for i in (count.saturating_sub(MAX_HOPS)..count).rev() {
            let mut address = None;
            for pair in unquoted_split(last[i % MAX_HOPS], b';') {
                let Some(equals) = pair.iter().position(|b| *b == b'=') else { continue };
                let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
                let value = match value {
                    [b'"', inner @ .., b'"'] => inner,
                    value => value,
                };
                if name.eq_ignore_ascii_case(b"for") {
                    address = node(value);
                } else if name.eq_ignore_ascii_case(b"proto") {
                    self.scheme = Scheme::named(value).unwrap_or(self.scheme);
                }
            }
            if !address.is_some_and(|address| self.follow(address, trust)) {
                break;
            }
        }
    }
}

/// Splits a list, but not within quoted strings.
fn unquoted_split(list: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    list.split(move |byte| {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match byte {
            b'\\' if is_quoted => is_escaped = !was_escaped,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        *byte == separator && !is_quoted
    })
}

/// Parses an address. Apache names the interface of a link-local one: `fe80::1%eth0`.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    match text.split_once('%') {
        Some((address, _)) => address.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok(),
    }
}

/// Parses an address, with or without a port: `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]`, `[::1]:5`.
fn node(value: &[u8]) -> Option<(IpAddr, u16)> {
    let text = std::str::from_utf8(value).ok()?;
    if let Some(address) = address(text) {
        return Some((address, 0));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some((address.ip(), address.port()));
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<Ipv6Addr>().ok().map(|address| (address.into(), 0))
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
