//! The host that a request is for: said once, by the target if it names one, else by `Host`.
//!
//! An agent, a proxy before it and an application that each believe another of two hosts can be played
//! off against each other (cache poisoning, links in mails that lead elsewhere), so what leaves room
//! for that is refused (RFC 9112, 3.2).

use hyper::Version;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;

/// Makes the `Host` header the one that counts. Without any, as HTTP/1.0 allows it, there is none.
///
/// # Errors
/// There is not exactly one clear host; the text is for the client.
pub(crate) fn settle(parts: &mut Parts) -> Result<(), &'static str> {
    let mut given = parts.headers.get_all(header::HOST).iter();
    match (given.next(), given.next()) {
        (Some(_), Some(_)) => return Err("there is more than one Host header"),
        (None, _) if parts.version >= Version::HTTP_11 => return Err("there is no Host header"),
        (Some(host), None) if !host.is_empty() && !names_a_host(host.as_bytes()) => {
            return Err("the Host header is not a host, or a host and a port");
        }
        _ => {}
    }
    // Of the absolute form (`GET http://host/path`) the target counts, even against the header.
    if let Some(target) = parts.uri.authority() {
        let host = target.as_str().rsplit_once('@').map_or(target.as_str(), |(_, host)| host);
        let host = HeaderValue::from_str(host).ok().filter(|h| names_a_host(h.as_bytes()));
        let host = host.ok_or("the target's host is not what a Host header could say")?;
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
    fn a_host_may_have_a_port_and_nothing_else() {
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
