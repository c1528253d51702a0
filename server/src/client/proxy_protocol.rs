//! The PROXY protocol, by which a proxy that does not speak HTTP reports its client's address.
//!
//! The head comes before the first byte of a connection: a line of text in version 1, a binary block in
//! version 2. A client could send it just as well, so the server parses it only from trusted proxies.

use crate::connection::core::Bytes;
use crate::connection::reading::{More, more};
use crate::connection::watched::Connection;
use crate::request::peer::{Peer, Scheme};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

const LINE_START: &[u8] = b"PROXY ";
/// The longest line of version 1, with its CRLF.
const MAX_LINE: usize = 107;
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The size of the fixed part of version 2.
const FIXED: usize = 16;
/// The largest size of the rest in version 2. The addresses are 36 bytes; the rest describes TLS.
const MAX_REST: usize = 4096;
/// The type of the record that describes the client's TLS, and the bit that says that there is one.
const TLS_RECORD: u8 = 0x20;
const HAS_TLS: u8 = 0x01;

/// The start of a connection, as far as the PROXY protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyHead {
    /// The bytes so far may be the start of a head.
    Incomplete,
    /// The connection begins with another protocol.
    Absent,
    /// A head of `size` bytes. `peer`: the addresses of the original connection; `None`: the proxy
    /// speaks for itself, for example to check the server's health.
    Present { size: usize, peer: Option<Peer> },
}

/// Reads the head of the PROXY protocol, if there is one. Returns false if the connection ends.
///
/// `limit` is the time for the whole head; zero: no limit.
pub(crate) async fn read(client: &mut Connection, bytes: &mut Bytes, limit: Duration) -> bool {
    let begun = client.watch.now();
    loop {
        match proxy_head(bytes.input.unread()) {
            Ok(ProxyHead::Incomplete) => {}
            Ok(ProxyHead::Absent) => return true,
            Ok(ProxyHead::Present { size, peer }) => {
                bytes.input.consume(size);
                if let Some(peer) = peer {
                    client.peer = peer;
                }
                return true;
            }
            Err(why) => {
                tracing::warn!("the proxy {} sent a malformed head: {why}", client.peer.remote);
                return false;
            }
        }
        if more(client, &mut bytes.input, limit, begun).await != More::Bytes {
            return false;
        }
    }
}

/// Parses the head of the PROXY protocol, version 1 or 2. Only trusted proxies may send it.
///
/// # Errors
/// The bytes begin such a head, and the rest is malformed. The text is for the log.
pub(crate) fn proxy_head(input: &[u8]) -> Result<ProxyHead, &'static str> {
    if input.starts_with(SIGNATURE) {
        block(input)
    } else if input.starts_with(LINE_START) {
        line(input)
    } else if SIGNATURE.starts_with(input) || LINE_START.starts_with(input) {
        Ok(ProxyHead::Incomplete)
    } else {
        Ok(ProxyHead::Absent)
    }
}

/// Parses `PROXY TCP4 1.2.3.4 5.6.7.8 1000 80` or `PROXY UNKNOWN …`, ended by CRLF.
fn line(input: &[u8]) -> Result<ProxyHead, &'static str> {
    const WRONG: &str = "the line of the PROXY protocol is malformed";
    let start = &input[..input.len().min(MAX_LINE)];
    let Some(end) = start.windows(2).position(|w| w == b"\r\n") else {
        return if input.len() < MAX_LINE { Ok(ProxyHead::Incomplete) } else { Err(WRONG) };
    };
    let text = std::str::from_utf8(&input[LINE_START.len()..end]).map_err(|_| WRONG)?;
    let mut words = text.split(' ');
    let family = words.next();
    let rest = [words.next(), words.next(), words.next(), words.next(), words.next()];
    let peer = match (family, rest) {
        (Some("UNKNOWN"), _) => None,
        (
            Some("TCP4" | "TCP6"),
            [Some(remote), Some(local), Some(remote_port), Some(local_port), None],
        ) => {
            let address = |ip: &str, port: &str| {
                let ip = ip.parse::<IpAddr>().ok()?;
                let digits = port.bytes().all(|b| b.is_ascii_digit());
                let port = port.parse().ok().filter(|_| digits)?;
                (ip.is_ipv4() == (family == Some("TCP4"))).then(|| SocketAddr::new(ip, port))
            };
            let remote = address(remote, remote_port).ok_or(WRONG)?;
            let local = address(local, local_port).ok_or(WRONG)?;
            Some(Peer { remote, local, scheme: Scheme::Http, is_reported: true })
        }
        _ => return Err(WRONG),
    };
    Ok(ProxyHead::Present { size: end + 2, peer })
}

/// Parses the binary block: signature, version and command, family, length, addresses, records.
fn block(input: &[u8]) -> Result<ProxyHead, &'static str> {
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED>() else {
        return Ok(ProxyHead::Incomplete);
    };
    let [.., command, family, high, low] = *fixed;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_REST {
        return Err("the block of the PROXY protocol is too long");
    }
    let Some(rest) = rest.get(..length) else { return Ok(ProxyHead::Incomplete) };
    let peer = match command {
        0x20 => None, // LOCAL
        0x21 => addresses(family, rest)?,
        _ => return Err("the command of the PROXY protocol is unknown"),
    };
    Ok(ProxyHead::Present { size: FIXED + length, peer })
}

/// Returns the addresses of TCP connections. Other families have none that HTTP could use.
fn addresses(family: u8, rest: &[u8]) -> Result<Option<Peer>, &'static str> {
    const SHORT: &str = "the block of the PROXY protocol is too short";
    let (remote, local, ports, records): (IpAddr, IpAddr, _, _) = match family {
        0x11 => {
            let (ips, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
            let (ports, records) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            let [a, b, c, d, e, f, g, h] = *ips;
            let (remote, local) = (Ipv4Addr::new(a, b, c, d), Ipv4Addr::new(e, f, g, h));
            (remote.into(), local.into(), ports, records)
        }
        0x21 => {
            let (remote, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let (local, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let (ports, records) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            (Ipv6Addr::from(*remote).into(), Ipv6Addr::from(*local).into(), ports, records)
        }
        _ => return Ok(None),
    };
    let scheme = if tells_of_tls(records)? { Scheme::Https } else { Scheme::Http };
    Ok(Some(Peer {
        remote: SocketAddr::new(remote, u16::from_be_bytes([ports[0], ports[1]])),
        local: SocketAddr::new(local, u16::from_be_bytes([ports[2], ports[3]])),
        scheme,
        is_reported: true,
    }))
}

/// Returns whether a record says that the client speaks TLS.
fn tells_of_tls(mut records: &[u8]) -> Result<bool, &'static str> {
    while let [kind, high, low, rest @ ..] = records {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (value, next) =
            rest.split_at_checked(length).ok_or("a record of the PROXY protocol is too long")?;
        if *kind == TLS_RECORD && value.first().is_some_and(|flags| flags & HAS_TLS != 0) {
            return Ok(true);
        }
        records = next;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(remote: &str, local: &str, scheme: Scheme) -> Option<Peer> {
        let (remote, local) = (remote.parse().unwrap(), local.parse().unwrap());
        Some(Peer { remote, local, scheme, is_reported: true })
    }

    /// Asserts that the head is found whole, and that each part of it is incomplete.
    #[track_caller]
    fn is_head(head: &[u8], peer: Option<Peer>) {
        for end in 0..head.len() {
            assert_eq!(proxy_head(&head[..end]), Ok(ProxyHead::Incomplete), "{end}");
        }
        let input = [head, b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(proxy_head(&input), Ok(ProxyHead::Present { size: head.len(), peer }));
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [SIGNATURE, &[command, family], &length, rest].concat()
    }

    #[test]
    fn lines_of_version_1() {
        let expected = peer("1.2.3.4:1000", "5.6.7.8:80", Scheme::Http);
        is_head(b"PROXY TCP4 1.2.3.4 5.6.7.8 1000 80\r\n", expected);
        let expected = peer("[2001:db8::1]:1", "[::1]:443", Scheme::Http);
        is_head(b"PROXY TCP6 2001:db8::1 ::1 1 443\r\n", expected);
        is_head(b"PROXY UNKNOWN\r\n", None);
        is_head(b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n", None);
    }

    #[test]
    fn malformed_lines_are_refused() {
        for bad in [
            "PROXY TCP4 1.2.3.4 5.6.7.8 1000\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1000 80 9\r\n",
            "PROXY TCP4 ::1 ::1 1000 80\r\n",
            "PROXY TCP6 1.2.3.4 5.6.7.8 1000 80\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 +1 80\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
            "PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY \r\n",
        ] {
            assert!(proxy_head(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let long = [LINE_START, &[b'x'; MAX_LINE]].concat();
        assert!(proxy_head(&long).is_err());
    }

    #[test]
    fn other_protocols_are_left_alone() {
        for input in ["GET / HTTP/1.1\r\n", "PROXIES /", "PROXY/", "\r\nGET /", "\r\n\r\n\0\r\nX"] {
            assert_eq!(proxy_head(input.as_bytes()), Ok(ProxyHead::Absent), "{input:?}");
        }
    }

    #[test]
    fn blocks_of_version_2() {
        let four = [1, 2, 3, 4, 5, 6, 7, 8, 0x03, 0xe8, 0, 80];
        is_head(&v2(0x21, 0x11, &four), peer("1.2.3.4:1000", "5.6.7.8:80", Scheme::Http));
        let tls = [&four[..], &[1, 0, 2, b'h', b'2', TLS_RECORD, 0, 5, 1, 0, 0, 0, 0]].concat();
        is_head(&v2(0x21, 0x11, &tls), peer("1.2.3.4:1000", "5.6.7.8:80", Scheme::Https));
        let mut six = [0; 36];
        (six[15], six[31], six[33], six[35]) = (1, 2, 9, 8);
        is_head(&v2(0x21, 0x21, &six), peer("[::1]:9", "[::2]:8", Scheme::Http));
        is_head(&v2(0x20, 0, &[]), None);
        is_head(&v2(0x21, 0x31, &[0; 216]), None);
    }

    #[test]
    fn malformed_blocks_are_refused() {
        for bad in [
            v2(0x11, 0x11, &[0; 12]),
            v2(0x22, 0x11, &[0; 12]),
            v2(0x21, 0x11, &[0; 11]),
            v2(0x21, 0x21, &[0; 12]),
            v2(0x21, 0x11, &[1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2, TLS_RECORD, 0, 5, 1]),
            v2(0x21, 0x11, &[0; MAX_REST + 1]),
        ] {
            assert!(proxy_head(&bad).is_err(), "{bad:?}");
        }
    }
}
