//! The host of a request: that of its target, else that of the `Host` header.
//!
//! If a request names two hosts, then agent, proxy and application may each believe another one. Attackers
//! use that for cache poisoning and forged links. So the agent refuses ambiguous hosts (RFC 9112, 3.2).

use hyper::Version;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Sets the `Host` header to the host of the request. An HTTP/1.0 request may have no host.
///
/// # Errors
/// The host is missing, ambiguous or malformed. The text is for the client.
pub(crate) fn settle(parts: &mut Parts) -> Result<(), &'static str> {
    let mut given = parts.headers.get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => return Err("the request has more than one Host header"),
        (None, _) if parts.version >= Version::HTTP_11 => {
            return Err("the request has no Host header");
        }
        (Some(host), None) if !host.is_empty() && !names_a_host(host.as_bytes()) => {
            return Err("the Host header is not of the form host or host:port");
        }
        _ => {}
    }
    // In the absolute form (`GET http://host/path`) the target overrides the header.
    if let Some(target) = parts.uri.authority() {
        let host = target.as_str().rsplit_once('@').map_or(target.as_str(), |(_, host)| host);
        let host = HeaderValue::from_str(host).ok().filter(|h| names_a_host(h.as_bytes()));
        let host = host.ok_or("the host in the request's target is malformed")?;
        parts.headers.insert(header::HOST, host);
    }
    Ok(())
}

fn names_a_host(value: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(value) else { return false };
    let host = authority.host();
    !host.is_empty()
        && authority.as_str().strip_prefix(host).is_some_and(|rest| {
            rest.is_empty()
                || rest.strip_prefix(':').is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port_but_no_other_part() {
        for good in
            ["a", "a.example", "a_b", "127.0.0.1:80", "[::1]", "[::1]:80", "a:", "xn--caf-dma"]
        {
            assert!(names_a_host(good.as_bytes()), "{good}");
        }
        for bad in
            ["", ":80", "a b", "a/b", "a?b", "a#b", "me@a", "a@a", "a:b", "a:1:2", "caf\u{e9}"]
        {
            assert!(!names_a_host(bad.as_bytes()), "{bad}");
        }
    }
}
