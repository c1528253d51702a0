//! The variables that an application of the session protocols gets.

use super::*;
use crate::client::http1::parse::parsed;
use crate::request::networks::Networks;
use crate::request::peer::Peer;
use std::collections::HashMap;

/// Encodes the request, and decodes it as an application does.
fn encoded(input: &str, from: &str, length: Option<u64>) -> Result<HashMap<String, String>, u16> {
    encoded_with(input, from, length, false)
}

fn encoded_with(
    input: &str,
    from: &str,
    length: Option<u64>,
    underscores: bool,
) -> Result<HashMap<String, String>, u16> {
    let (head, _) = parsed(input);
    let peer = Peer {
        remote: format!("{from}:5555").parse().unwrap(),
        local: "127.0.0.1:3000".parse().unwrap(),
        scheme: Scheme::Http,
        is_reported: false,
    };
    let trusted: Networks = "10.0.0.0/8".parse().unwrap();
    let origin = Forwarded::of(&head, &peer, &trusted.into());
    let framing = length.map_or(RequestFraming::None, RequestFraming::Length);
    let message =
        Message { head: &head, peer: &peer, origin: &origin, framing, mount: 0, underscores };
    let mut out = b"before".to_vec();
    let encoded = session_pairs(&mut out, message, "secret", takes_upgrades());
    let Some((size, pairs)) = out.strip_prefix(b"before").unwrap().split_first_chunk() else {
        assert_eq!(out, b"before");
        return Err(encoded.unwrap_err().status);
    };
    assert_eq!(u32::from_be_bytes(*size) as usize, pairs.len());
    let text = String::from_utf8_lossy(pairs).into_owned();
    let items: Vec<_> = text.strip_suffix('\0').unwrap().split('\0').collect();
    assert_eq!(items.len() % 2, 0);
    let pairs: HashMap<_, _> = items.chunks(2).map(|p| (p[0].into(), p[1].into())).collect();
    assert_eq!(pairs.len() * 2, items.len(), "a variable comes twice: {text:?}");
    Ok(pairs)
}

thread_local! {
    static TAKES_UPGRADES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn takes_upgrades() -> bool {
    TAKES_UPGRADES.get()
}

#[test]
fn only_a_process_that_takes_upgrades_learns_of_one() {
    let with = |fields: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
    let asked = with("Connection: keep-alive, Upgrade\r\nUpgrade: websocket");
    let upgrade = |input: &str, length| {
        let v = encoded(input, "192.0.2.9", length).unwrap();
        (v.get("HTTP_CONNECTION").cloned(), v.get("HTTP_UPGRADE").cloned())
    };
    assert_eq!(upgrade(&asked, None), (None, None));
    TAKES_UPGRADES.set(true);
    assert_eq!(upgrade(&asked, None), (Some("Upgrade".into()), Some("websocket".into())));
    assert_eq!(upgrade(&asked, Some(3)), (None, None), "a body could end behind the switch");
    for other in
        ["Upgrade: websocket", "Connection: upgrade\r\nUpgrade: h2c", "Connection: upgrade"]
    {
        assert_eq!(upgrade(&with(other), None), (None, None), "{other}");
    }
}

#[track_caller]
fn variables(input: &str) -> HashMap<String, String> {
    encoded(input, "192.0.2.9", None).unwrap()
}

#[test]
fn the_path_is_decoded_and_the_uri_is_not() {
    let v = variables("GET /caf%C3%A9%20x?a=%20b HTTP/1.0\r\n\r\n");
    assert_eq!((&*v["PATH_INFO"], &*v["SCRIPT_NAME"]), ("/café x", ""));
    assert_eq!((&*v["REQUEST_URI"], &*v["QUERY_STRING"]), ("/caf%C3%A9%20x?a=%20b", "a=%20b"));
    assert_eq!((&*v["REQUEST_METHOD"], &*v["SERVER_PROTOCOL"]), ("GET", "HTTP/1.0"));
    assert_eq!((&*v["SERVER_NAME"], &*v["SERVER_PORT"]), ("127.0.0.1", "3000"));
    assert_eq!((&*v["REMOTE_ADDR"], &*v["REMOTE_PORT"]), ("192.0.2.9", "5555"));
    assert_eq!(v["PASSENGER_CONNECT_PASSWORD"], "secret");
    assert!(v["SERVER_SOFTWARE"].starts_with("cabrank/"));
    assert_eq!(variables("OPTIONS * HTTP/1.0\r\n\r\n")["PATH_INFO"], "");
}

#[test]
fn escapes_are_decoded_once_and_only_if_complete() {
    for (path, decoded) in
        [("/%zz%4", "/%zz%4"), ("/%2e%2E", "/.."), ("/%2541", "/%41"), ("/%", "/%"), ("/+", "/+")]
    {
        let v = variables(&format!("GET {path} HTTP/1.0\r\n\r\n"));
        assert_eq!(v["PATH_INFO"], decoded, "{path}");
    }
}

#[test]
fn a_decoded_nul_is_refused() {
    assert_eq!(encoded("GET /a%00b HTTP/1.0\r\n\r\n", "192.0.2.9", None), Err(400));
    assert_eq!(variables("GET /?a%00b HTTP/1.0\r\n\r\n")["QUERY_STRING"], "a%00b");
}

#[test]
fn fields_become_variables() {
    let input = "POST / HTTP/1.1\r\nHost: shop.example:8080\r\nX-A: 1\r\nCookie: a=1\r\nx-a: 2\r\n\
                 cookie: b=2\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nX-A: 3\r\nEmpty:\r\n\r\n";
    let v = encoded(input, "192.0.2.9", Some(3)).unwrap();
    assert_eq!((&*v["HTTP_X_A"], &*v["HTTP_COOKIE"]), ("1, 2, 3", "a=1; b=2"));
    assert_eq!((&*v["CONTENT_TYPE"], &*v["CONTENT_LENGTH"]), ("text/plain", "3"));
    assert_eq!((&*v["HTTP_HOST"], &*v["SERVER_NAME"]), ("shop.example:8080", "shop.example"));
    assert_eq!(v["HTTP_EMPTY"], "");
    assert!(!v.contains_key("HTTP_CONTENT_TYPE") && !v.contains_key("HTTP_CONTENT_LENGTH"));
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert!(!variables(chunked).contains_key("CONTENT_LENGTH"));
    assert_eq!(encoded(chunked, "192.0.2.9", Some(7)).unwrap()["CONTENT_LENGTH"], "7");
}

#[test]
fn deceptive_fields_are_left_out() {
    let v = variables(
        "GET / HTTP/1.0\r\nProxy: http://evil\r\nX_Forwarded_For: 1.2.3.4\r\nConnection: X-Hop\r\n\
         X-Hop: 1\r\nExpect: 100-continue\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\nForwarded: proto=https\r\n\r\n",
    );
    assert!(v.keys().all(|k| !k.starts_with("HTTP")), "{v:?}");
    assert_eq!(v["SERVER_NAME"], "127.0.0.1");
}

#[test]
fn a_trusted_proxy_gives_scheme_and_address() {
    let input = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.1.1.1\r\n\
                 X-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n\r\n";
    let v = encoded(input, "10.0.0.9", None).unwrap();
    assert_eq!((&*v["REMOTE_ADDR"], v.get("REMOTE_PORT")), ("1.1.1.1", None));
    assert_eq!((&*v["HTTPS"], &*v["HTTP_X_FORWARDED_HOST"]), ("on", "h"));
    let v = encoded(input, "[2001:db8::1]", None).unwrap();
    assert_eq!((&*v["REMOTE_ADDR"], &*v["HTTP_X_FORWARDED_FOR"]), ("2001:db8::1", "1.1.1.1"));
    assert!(!v.contains_key("HTTPS") && !v.contains_key("HTTP_X_FORWARDED_PROTO"));
}

#[test]
fn a_host_may_be_an_address_in_brackets() {
    for (host, name) in [("[::1]:81", "[::1]"), ("[::1]", "[::1]"), ("a:", "a"), ("", "127.0.0.1")]
    {
        let v = variables(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((&*v["SERVER_NAME"], &*v["HTTP_HOST"]), (name, host));
    }
}

#[test]
fn names_with_underscores_are_variables_only_where_the_operator_wants_them() {
    let input = "GET / HTTP/1.1\r\nHost: a\r\nX_Key: 1\r\nX_User: forged\r\nX-User: true\r\nA_b-c: 1\r\nA-b_c: 2\r\n\
                 X_Key: 2\r\nX_Forwarded_Proto: https\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n\r\n";
    let of = |underscores| {
        let v = encoded_with(input, "10.0.0.9", None, underscores).unwrap();
        let mut v: Vec<_> = v.into_iter().filter(|(name, _)| name.starts_with("HTTP_")).collect();
        v.sort();
        v.into_iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
    };
    assert_eq!(of(false), ["HTTP_HOST=a", "HTTP_X_USER=true"]);
    assert_eq!(of(true), ["HTTP_A_B_C=1", "HTTP_HOST=a", "HTTP_X_KEY=1, 2", "HTTP_X_USER=true"]);
}
