//! Heads of requests: tables of good and bad ones, and each good one in every split.

use super::*;
use crate::request::head::AnswerTo;

const LIMITS: Limits = Limits { size: 8192, fields: MAX_FIELDS };

/// Parses the bytes that have arrived, and returns the size of the head.
fn size_of(
    parser: &mut Parser,
    head: &mut Head,
    input: &[u8],
) -> Result<Option<usize>, BadRequest> {
    let parsed = parser.parse(head, input, &LIMITS)?;
    Ok(parsed.map(|(size, _)| size))
}

#[track_caller]
fn good(input: &str) -> Head {
    parsed(input).0
}

/// Parses a request with these lines after `Host`.
#[track_caller]
fn with(lines: &str) -> Head {
    good(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

const GOOD: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\nHost: a\n\n",
    "GET / HTTP/1.1\r\nHost: a\n\r\n",
    "PUT /a?b=c HTTP/1.1\r\nhost:a:80\r\nContent-Length:3\r\nEmpty:\r\nX: \t y \t \r\n\r\n",
    "POST / HTTP/1.1\r\nHost: [::1]:80\r\nTransfer-Encoding: Chunked\r\nExpect: 100-continue\r\n\r\n",
    "GET http://example.org:81?x HTTP/1.1\r\nHost: b\r\nConnection: close, X\r\nX: 1\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n",
];

#[test]
fn a_head_may_arrive_in_any_pieces() {
    for input in GOOD {
        let input = input.as_bytes();
        let rest = [input, b"rest"].concat();
        for first in 0..input.len() {
            let (mut parser, mut head) = <(Parser, Head)>::default();
            let mut size = |input| size_of(&mut parser, &mut head, input);
            assert_eq!(size(&input[..first]), Ok(None), "{input:?} {first}");
            for second in first..input.len() {
                assert_eq!(size(&input[..second]), Ok(None), "{first} {second}");
            }
            assert_eq!(size(&rest), Ok(Some(input.len())), "{input:?} {first}");
        }
        let (mut parser, mut head) = <(Parser, Head)>::default();
        let mut size = |input| size_of(&mut parser, &mut head, input);
        for first in 0..input.len() {
            assert_eq!(size(&input[..first]), Ok(None));
            assert_eq!(size(&rest), Ok(Some(input.len())), "{input:?} {first}");
        }
    }
}

#[test]
fn bad_requests_are_refused() {
    for (input, status) in [
        // Two parties could see different ends of the body.
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n", 400),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 400),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
            400,
        ),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\t: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n",
            501,
        ),
        // Lines.
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\n X: 1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        ("GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\0: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX Y: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nCaf\u{e9}: a\r\n\r\n", 400),
        ("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        // First lines.
        ("GET /\r\n\r\n", 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        ("GET / http/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1,1\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTPS/1.1\r\nHost: a\r\n\r\n", 400),
        ("G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00", 400),
        ("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        // Targets.
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
        ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET ?a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET #a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http:/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://me@/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://me:pw@b/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a\\b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET http://a:b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        // Hosts.
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET http://a/ HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: me@a\r\n\r\n", 400),
        ("GET http://a/ HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    ] {
        match Parser::default().parse(&mut Head::default(), input.as_bytes(), &LIMITS) {
            Err(bad) => assert_eq!(bad.status, status, "{input:?}: {bad:?}"),
            Ok(size) => panic!("{input:?} was taken: {size:?}"),
        }
    }
}

#[test]
fn targets_are_taken_as_they_come() {
    for (target, path, query) in [
        ("/", "/", None),
        ("/a%20b?c=d?e", "/a%20b", Some("c=d?e")),
        ("/?", "/", Some("")),
        ("//a//b", "//a//b", None),
        ("/../a", "/../a", None),
        ("/<a>\"b\"{c}|d\\^`[e]", "/<a>\"b\"{c}|d\\^`[e]", None),
        ("/caf\u{e9}?\u{e9}", "/caf\u{e9}", Some("\u{e9}")),
        ("/a#b?c", "/a", None),
        ("/a?b#c", "/a", Some("b")),
        ("http://h", "/", None),
        ("http://h?a", "/", Some("a")),
        ("http://h#f", "/", None),
        ("HTTPS://h/a?b", "/a", Some("b")),
    ] {
        let head = good(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(head.path(), path.as_bytes(), "{target}");
        assert_eq!(head.query(), query.map(str::as_bytes), "{target}");
        let whole = query.map_or(path.to_owned(), |query| format!("{path}?{query}"));
        assert_eq!(head.target(), whole.as_bytes(), "{target}");
    }
}

#[test]
fn the_host_of_the_target_overrides_the_field() {
    for (input, host) in [
        ("GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n", "a.example:81"),
        ("GET / HTTP/1.1\r\nHost:\r\n\r\n", ""),
        ("GET / HTTP/1.0\r\n\r\n", ""),
        ("GET http://b:81/ HTTP/1.1\r\nHost: a\r\n\r\n", "b:81"),
        ("GET http://b HTTP/1.1\r\nHost:\r\n\r\n", "b"),
        ("GET http://[::1]:8/ HTTP/1.0\r\n\r\n", "[::1]:8"),
    ] {
        let head = good(input);
        assert_eq!(head.host(), host.as_bytes(), "{input:?}");
        assert_eq!(head.field("host").unwrap_or_default(), host.as_bytes(), "{input:?}");
    }
}

#[test]
fn bodies_are_framed_by_length_or_chunks() {
    use RequestFraming::{Chunked, Length, None};
    for (lines, framing) in [
        ("", None),
        ("Content-Length: 0\r\n", Length(0)),
        ("Content-Length: 007\r\n", Length(7)),
        ("transfer-encoding: CHUNKED\r\n", Chunked),
        ("Transfer-Encoding: \t chunked \t\r\n", Chunked),
    ] {
        assert_eq!(with(lines).framing(), framing, "{lines:?}");
    }
}

#[test]
fn connections_stay_open_as_the_client_asks() {
    for (version, connection, stays) in [
        ("1.1", "", true),
        ("1.1", "close", false),
        ("1.1", "Keep-Alive, CLOSE", false),
        ("1.1", "closed", true),
        ("1.0", "", false),
        ("1.0", "keep-alive", true),
        ("1.0", "keep-alive, close", false),
    ] {
        let input = format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n");
        assert_eq!(parsed(&input).1.stays(), stays, "{input:?}");
    }
}

#[test]
fn expectations_and_upgrades() {
    let asked = |input: &str| parsed(input).1.go_ahead().is_some();
    let expects = |lines: &str| asked(&format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    assert!(expects("Expect: 100-Continue\r\nContent-Length: 1\r\n"));
    assert!(!expects("Expect: 100-continue\r\n"), "there is no body");
    assert!(!expects("Expect: 200-ok\r\nContent-Length: 1\r\n"));
    let old = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    assert!(!asked(old), "HTTP/1.0 has no interim replies");

    let both = with("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n");
    assert_eq!(both.upgrade(), Some(&b"websocket"[..]));
    assert_eq!(with("Upgrade: websocket\r\n").upgrade(), None);
    assert_eq!(with("Connection: upgrade\r\n").upgrade(), None);
}

#[test]
fn methods_are_any_token() {
    for (method, safe, to) in [
        ("GET", true, AnswerTo::Other),
        ("HEAD", true, AnswerTo::Head),
        ("POST", false, AnswerTo::Other),
        ("PING", false, AnswerTo::Other),
        ("get", false, AnswerTo::Other),
        ("M-SEARCH", false, AnswerTo::Other),
    ] {
        let head = good(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((head.method(), head.is_safe(), head.answer_to()), (method, safe, to));
    }
}

#[test]
fn fields_are_found_whatever_their_case() {
    let head = with("X-A: 1\r\nx-a: 2, Three\r\nEmpty:  \r\n");
    assert_eq!(head.field("X-a"), Some(&b"1"[..]));
    assert_eq!((head.field("empty"), head.field("none")), (Some(&b""[..]), None));
    assert!(head.has_token("X-A", "three") && !head.has_token("X-A", "thre"));
    let all: Vec<_> = head.fields().map(|(name, _)| name).collect();
    assert_eq!(all, ["Host", "X-A", "x-a", "Empty"]);
}

#[test]
fn heads_beyond_the_limits_are_refused() {
    let limits = Limits { size: 100, fields: 3 };
    let status = |input: &str| {
        let parsed = Parser::default().parse(&mut Head::default(), input.as_bytes(), &limits);
        parsed.map(|parsed| parsed.map(|(size, _)| size)).map_err(|bad| bad.status)
    };
    let fitting = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(68));
    assert_eq!((fitting.len(), status(&fitting)), (100, Ok(Some(100))));
    assert_eq!(status(&fitting[..99]), Ok(None));
    assert_eq!(status(&fitting.replace("X:", "XX:")), Err(431));
    assert_eq!(status(&format!("GET /{}", "x".repeat(94))), Ok(None));
    assert_eq!(status(&format!("GET /{}", "x".repeat(95))), Err(414));
    assert_eq!(status(&format!("\r\nGET /{}", "x".repeat(95))), Err(414));
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nX:\r\n\r\n"), Ok(Some(35)));
    assert_eq!(status("GET / HTTP/1.1\r\nHost: a\r\nX:\r\nX:\r\nX:\r\n\r\n"), Err(431));
    assert_eq!(status(&"\r\n".repeat(20)), Err(400));
}

#[test]
fn a_recycled_head_keeps_nothing_of_the_last_request() {
    let mut head = good("PUT http://b?x HTTP/1.0\r\nA: 1\r\nContent-Length: 5\r\n\r\n");
    head.clear();
    assert_eq!((head.method(), head.target(), head.host()), ("", &b""[..], &b""[..]));
    let next = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_eq!(size_of(&mut Parser::default(), &mut head, next), Ok(Some(next.len())));
    assert_eq!((head.method(), head.framing()), ("GET", RequestFraming::None));
    assert_eq!((head.fields().count(), head.query(), head.host()), (1, None, &b"a"[..]));
}
