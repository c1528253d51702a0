//! Hop-by-hop header fields, which the agent must not pass on.

use hyper::header::{self, HeaderMap, HeaderName};

const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Removes the hop-by-hop fields, with those that `Connection` names.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok())
        // `Connection` cannot remove the message's length or its target.
        .filter(|n| n != header::CONTENT_LENGTH && n != header::HOST)
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Returns whether the client asks to upgrade its connection to another protocol.
pub(crate) fn asks_for_upgrade(headers: &HeaderMap) -> bool {
    headers.contains_key(header::UPGRADE) && has_token(headers, "upgrade")
}

/// Returns whether `Connection` contains this token.
pub(crate) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    headers.get_all(header::CONNECTION).iter().any(|v| {
        v.to_str().is_ok_and(|v| v.split(',').any(|t| t.trim().eq_ignore_ascii_case(token)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn fields_named_by_connection_are_removed_except_the_length() {
        let mut h = HeaderMap::new();
        h.insert("connection", HeaderValue::from_static("X-Once, content-length"));
        h.insert("x-once", HeaderValue::from_static("1"));
        h.insert("content-length", HeaderValue::from_static("1"));
        h.insert("te", HeaderValue::from_static("trailers"));
        remove_hop_by_hop(&mut h);
        assert_eq!(h.keys().collect::<Vec<_>>(), ["content-length"]);
    }

    #[test]
    fn an_upgrade_requires_both_headers() {
        let mut h = HeaderMap::new();
        h.insert("upgrade", HeaderValue::from_static("websocket"));
        assert!(!asks_for_upgrade(&h));
        h.insert("connection", HeaderValue::from_static("keep-alive, Upgrade"));
        assert!(asks_for_upgrade(&h));
    }
}
