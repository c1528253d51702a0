//! The head of a request: each request that the server accepts means the same to the application.
#![no_main]

#[path = "../server.rs"]
mod server;

use server::encode::{ConnectionField, http_request};
use server::forwarded::Forwarded;
use server::pairs::session_pairs;
use server::request_head::{RequestFraming, RequestHead};
use server::{LIMITS, are_same_requests, config, has_host, peer, with_cut};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((input, cut)) = with_cut(input) else { return };
    let mut head = RequestHead::default();
    let Ok(Some(size)) = head.parse(input, &LIMITS) else { return };

    // A part of a valid head is neither a head nor an error, and leaves no trace.
    let mut again = RequestHead::default();
    let cut = cut.min(size - 1);
    assert_eq!(again.parse(&input[..cut], &LIMITS), Ok(None));
    assert_eq!(again.parse(input, &LIMITS), Ok(Some(size)));
    assert!(are_same_requests(&again, &head));

    let target = head.target();
    assert!(target.starts_with(b"/") || (target == b"*" && head.method() == "OPTIONS"));
    assert!(head.host().is_empty() || server::host::names_a_host(head.host()));
    let _ = (ConnectionField::as_asked(&head), head.upgrade(), head.expects_continue());

    // The application reads one request, and the same one.
    let peer = peer([192, 0, 2, 1]);
    let forwarded = Forwarded::of(&head, &peer, &"10.0.0.0/8".parse().unwrap());
    assert_eq!(forwarded.remote, peer.remote.ip());
    let mut out = Vec::new();
    http_request(&mut out, &head, &peer, &forwarded, head.framing());
    again.clear();
    let limits = server::request_head::Limits { size: 2 * LIMITS.size, ..LIMITS };
    match again.parse(&out, &limits) {
        Ok(read) => assert_eq!(read, Some(out.len()), "another request is hidden in this one"),
        // The server's own fields are too many for its own limit.
        Err(bad) => return assert_eq!(bad.status, 431, "{bad:?}"),
    }
    assert_eq!((again.method(), again.target()), (head.method(), head.target()));
    assert_eq!(again.host(), if has_host(&head) { head.host() } else { b"127.0.0.1:3000" });
    assert_eq!(again.framing(), head.framing());
    assert!(!again.expects_continue() && again.keeps_alive());
    assert_eq!(again.upgrade(), head.upgrade());

    let length = match head.framing() {
        RequestFraming::Length(length) => Some(length),
        _ => None,
    };
    out.clear();
    if session_pairs(&mut out, &head, &peer, &forwarded, "secret", length).is_err() {
        return assert!(out.is_empty());
    }
    let (size, pairs) = out.split_first_chunk().unwrap();
    assert_eq!(u32::from_be_bytes(*size) as usize, pairs.len());
    let items: Vec<_> = pairs.strip_suffix(b"\0").unwrap().split(|b| *b == 0).collect();
    assert_eq!(items.len() % 2, 0);
    let mut names: Vec<_> = items.iter().step_by(2).collect();
    names.sort();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "a variable comes twice");
    assert!(!names.iter().any(|name| name.starts_with(b"HTTP_X_FORWARDED_PROTO")));
});
