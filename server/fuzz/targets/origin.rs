//! The fields of proxies: a trusted proxy's fields are read, and another client's change nothing.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::forwarded::{Forwarded, Scheme};
use server::request_head::RequestHead;
use server::{LIMITS, config, peer, with_cut};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    // The input is the values of fields, so that each run reaches their parsers.
    let (one, two) = input.split_at(cut);
    let names = [&b"X-Forwarded-For"[..], b"X-Forwarded-Proto", b"Forwarded", b"Forwarded"];
    for pair in names.windows(2) {
        let request =
            [b"GET / HTTP/1.0\r\n", pair[0], b": ", one, b"\r\n", pair[1], b": ", two, b"\r\n\r\n"]
                .concat();
        let mut head = RequestHead::default();
        let Ok(Some(_)) = head.parse(&request, &LIMITS) else { return };
        let trusted = "10.0.0.0/8".parse().unwrap();
        let client = peer([192, 0, 2, 1]);
        let origin = Forwarded::of(&head, &client, &trusted);
        assert_eq!((origin.remote, origin.remote_port), (client.remote.ip(), 5555));
        assert_eq!((origin.scheme, origin.from_proxy), (Scheme::Http, false));
        let origin = Forwarded::of(&head, &peer([10, 0, 0, 1]), &trusted);
        assert!(origin.from_proxy);
    }
});
