//! The requests that an application gets by HTTP.

use super::*;
use crate::client::http1::parse::parsed;
use crate::request::networks::Networks;
use crate::request::origin::Forwarded;
use crate::request::peer::{Peer, Scheme};

/// Encodes a request for an application, as it comes from this address, and returns its lines.
fn requested(input: &str, from: &str, framing: RequestFraming) -> Vec<String> {
    requested_with(input, from, framing, false, Receiver { is_foreign: false, password: None })
}

fn requested_with(
    input: &str,
    from: &str,
    framing: RequestFraming,
    underscores: bool,
    receiver: Receiver<'_>,
) -> Vec<String> {
    let (head, _) = parsed(input);
    let peer = Peer {
        remote: format!("{from}:5555").parse().unwrap(),
        local: "127.0.0.1:3000".parse().unwrap(),
        scheme: Scheme::Http,
        is_reported: false,
    };
    let trusted: Networks = "10.0.0.0/8".parse().unwrap();
    let origin = Forwarded::of(&head, &peer, &trusted.into());
    let mut out = Vec::new();
    push_head(
        &mut out,
        Message { head: &head, peer: &peer, origin: &origin, framing, mount: 0, underscores },
        receiver,
    );
    let out = String::from_utf8(out).unwrap();
    out.strip_suffix("\r\n\r\n").unwrap().split("\r\n").map(str::to_owned).collect()
}

#[test]
fn the_mount_follows_the_origin_and_stays_in_the_target() {
    let origin = Forwarded {
        remote: "192.0.2.9".parse().unwrap(),
        remote_port: 7,
        scheme: Scheme::Https,
        from_proxy: false,
    };
    for (mount, target) in
        [("", "/secret,https;192.0.2.9;7,"), ("/blog", "/secret,https;192.0.2.9;7;/blog,")]
    {
        let mut out = Vec::new();
        push_origin(&mut out, &origin, mount.as_bytes(), "secret");
        assert_eq!(String::from_utf8(out).unwrap(), target);
    }
}

#[test]
fn an_application_gets_the_request_without_hop_by_hop_fields() {
    let input = "POST http://b.example/x?y HTTP/1.0\r\nhost: a\r\nCookie: a=1\r\nProxy: evil\r\n\
                 cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\
                 Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        requested(input, "192.0.2.9", RequestFraming::Length(5)),
        [
            "POST /x?y HTTP/1.1",
            "Host: b.example",
            "Cookie: a=1",
            "cookie: b=2",
            "X-Forwarded-For: 192.0.2.9",
            "X-Forwarded-Proto: http",
            "Content-Length: 5",
        ]
    );
    let lines = requested("GET / HTTP/1.0\r\n\r\n", "[::ffff:192.0.2.9]", RequestFraming::None);
    assert_eq!(lines[1..3], ["Host: 127.0.0.1:3000", "X-Forwarded-For: 192.0.2.9"]);
    let input = "POST / HTTP/1.1\r\nHost:\r\nTransfer-Encoding: chunked\r\n\r\n";
    let lines = requested(input, "192.0.2.9", RequestFraming::Chunked);
    assert_eq!((&*lines[1], &**lines.last().unwrap()), ("Host: ", "Transfer-Encoding: chunked"));
}

#[test]
fn an_application_sees_the_fields_of_proxies_only_from_proxies() {
    let input = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\nX-Forwarded-Proto: https\r\n\
                 X-Forwarded-Host: h\r\nForwarded: for=1.1.1.1\r\nX_Forwarded_Proto: https\r\n\r\n";
    assert_eq!(
        requested(input, "192.0.2.9", RequestFraming::None)[2..],
        ["X-Forwarded-For: 1.1.1.1, 192.0.2.9", "X-Forwarded-Proto: http"]
    );
    assert_eq!(
        requested(input, "10.0.0.9", RequestFraming::None)[2..],
        [
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: h",
            "Forwarded: for=1.1.1.1",
            "X-Forwarded-For: 1.1.1.1, 10.0.0.9",
        ]
    );
    let input = "GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=1.1.1.1;proto=https\r\n\r\n";
    let lines = requested(input, "10.0.0.9", RequestFraming::None);
    assert_eq!(lines.last().unwrap(), "X-Forwarded-Proto: https");
}

/// Encodes a request for a loader that takes the origin.
fn requested_by_loader(input: &str, from: &str) -> Vec<String> {
    let receiver = Receiver { is_foreign: false, password: Some("secret") };
    requested_with(input, from, RequestFraming::None, false, receiver)
}

#[test]
fn a_loader_gets_the_origin_in_front_of_the_target_and_no_field_of_the_servers() {
    let lines = requested_by_loader("GET /x?y HTTP/1.1\r\nHost: a\r\n\r\n", "192.0.2.9");
    assert_eq!(lines, ["GET /secret,http;192.0.2.9;5555,/x?y HTTP/1.1", "Host: a"]);
    let lines = requested_by_loader("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "[::ffff:192.0.2.9]");
    assert_eq!(lines[0], "OPTIONS /secret,http;192.0.2.9;5555,* HTTP/1.1");
    let lines = requested_by_loader("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "[2001:db8::1]");
    assert_eq!(lines[0], "GET /secret,http;2001:db8::1;5555,/ HTTP/1.1");
}

#[test]
fn a_client_that_knows_the_password_of_a_loader_forges_no_origin() {
    let input = "GET /secret,https;1.1.1.1;1,/x HTTP/1.1\r\nHost: a\r\n\r\n";
    let lines = requested_by_loader(input, "192.0.2.9");
    assert_eq!(lines[0], "GET /secret,http;192.0.2.9;5555,/secret,https;1.1.1.1;1,/x HTTP/1.1");
}

#[test]
fn a_loader_gets_the_fields_of_a_trusted_proxy_as_they_came_and_those_of_another_client_not_at_all()
{
    let fields = "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 1.1.1.1:80, 10.0.0.2\r\n\
                  X-Forwarded-Host: h\r\nX-Real-IP: 1.1.1.1";
    let input = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let lines = requested_by_loader(&input, "10.0.0.9");
    assert_eq!(lines[0], "GET /secret,https;1.1.1.1;80,/ HTTP/1.1");
    assert_eq!(lines[2..], fields.split("\r\n").collect::<Vec<_>>());
    let lines = requested_by_loader(&input, "192.0.2.9");
    assert_eq!(lines[0], "GET /secret,http;192.0.2.9;5555,/ HTTP/1.1");
    assert_eq!(lines[2..], ["X-Real-IP: 1.1.1.1"]);
    let input = "GET / HTTP/1.1\r\nHost: a\r\nForwarded: for=1.1.1.1;proto=https\r\n\r\n";
    let lines = requested_by_loader(input, "10.0.0.9");
    assert_eq!(lines[0], "GET /secret,https;1.1.1.1;0,/ HTTP/1.1");
    assert_eq!(lines[2..], ["Forwarded: for=1.1.1.1;proto=https"]);
}

#[test]
fn an_upgrade_to_a_protocol_of_requests_is_not_passed_on() {
    for protocols in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.2", "h2c ,x"] {
        let input = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n\
             Upgrade: {protocols}\r\n\r\n"
        );
        let lines = requested(&input, "192.0.2.9", RequestFraming::None);
        let named = |name: &str| lines.iter().any(|line| line.to_lowercase().starts_with(name));
        assert!(
            !named("connection:") && !named("upgrade:") && !named("http2-settings:"),
            "{lines:?}"
        );
    }
}

#[test]
fn an_upgrade_is_passed_on_only_if_the_client_asks_for_it() {
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let lines = requested(ask, "192.0.2.9", RequestFraming::None);
    assert_eq!(lines[lines.len() - 2..], ["Connection: upgrade", "Upgrade: websocket"]);
    let none = ask.replace("keep-alive, Upgrade", "keep-alive");
    let lines = requested(&none, "192.0.2.9", RequestFraming::None);
    assert!(!lines.iter().any(|line| line.contains("pgrade")), "{lines:?}");
}

#[test]
fn names_with_underscores_are_passed_on_only_where_the_operator_wants_them() {
    let input = "GET / HTTP/1.1\r\nHost: a\r\nX_Key: 1\r\nX_Forwarded_Proto: https\r\nContent_Length: 5\r\n\r\n";
    let of = |underscores| {
        let receiver = Receiver { is_foreign: false, password: None };
        let lines = requested_with(input, "10.0.0.9", RequestFraming::None, underscores, receiver);
        lines.into_iter().filter(|line| line.contains('_')).collect::<Vec<_>>()
    };
    assert_eq!((of(false), of(true)), (vec![], vec!["X_Key: 1".to_owned()]));
}

#[test]
fn a_request_with_a_body_is_the_last_of_its_connection_to_a_foreign_program() {
    let input = "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let connection = |framing, is_foreign| {
        let receiver = Receiver { is_foreign, password: None };
        let lines = requested_with(input, "192.0.2.9", framing, false, receiver).into_iter();
        lines.filter(|line| line.contains("pgrade") || line.contains("close")).collect::<Vec<_>>()
    };
    let keeps: Vec<String> = vec!["Connection: upgrade".into(), "Upgrade: x".into()];
    for framing in [RequestFraming::Length(1), RequestFraming::Chunked] {
        assert_eq!(connection(framing, true), ["Connection: close"]);
        assert_eq!(connection(framing, false), keeps);
    }
    for framing in [RequestFraming::None, RequestFraming::Length(0)] {
        assert_eq!(connection(framing, true), keeps);
    }
}
