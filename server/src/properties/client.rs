//! The words of a proxy about its client.

use super::{peer, trusting, with_cut};
use crate::client::http1::parse::{Limits, MAX_FIELDS, Parser};
use crate::client::proxy_protocol::{ProxyHead, proxy_head as parse};
use crate::request::head::Head;
use crate::request::origin::Forwarded;
use crate::request::peer::Scheme;

/// The head of the PROXY protocol: a part of it is incomplete, and what follows it does not count.
pub fn proxy_head(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    if let Ok(ProxyHead::Present { size, peer }) = parse(input) {
        assert_eq!(parse(&input[..cut.min(size - 1)]), Ok(ProxyHead::Incomplete));
        assert_eq!(parse(&input[..size]), Ok(ProxyHead::Present { size, peer }));
    }
}

/// The fields of proxies: a trusted proxy's fields are read, and another client's change nothing.
pub fn origin(input: &[u8]) {
    let Some((input, cut)) = with_cut(input) else { return };
    // The input is the values of fields, so that each run reaches their parsers.
    let (one, two) = input.split_at(cut);
    let names = [&b"X-Forwarded-For"[..], b"X-Forwarded-Proto", b"Forwarded", b"Forwarded"];
    for pair in names.windows(2) {
        let request =
            [b"GET / HTTP/1.0\r\n", pair[0], b": ", one, b"\r\n", pair[1], b": ", two, b"\r\n\r\n"]
                .concat();
        let mut head = Head::default();
        let limits = Limits { size: 64 * 1024, fields: MAX_FIELDS };
        let Ok(Some(_)) = Parser::default().parse(&mut head, &request, &limits) else { return };
        let trusted = trusting("10.0.0.0/8");
        let client = peer([192, 0, 2, 1]);
        let origin = Forwarded::of(&head, &client, &trusted);
        assert_eq!((origin.remote, origin.remote_port), (client.remote.ip(), 5555));
        assert_eq!((origin.scheme, origin.from_proxy), (Scheme::Http, false));
        let origin = Forwarded::of(&head, &peer([10, 0, 0, 1]), &trusted);
        assert!(origin.from_proxy);
    }
}
