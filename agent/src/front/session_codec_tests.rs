//! The encoding of the session protocol.

use super::*;
use hyper::Request;
use std::collections::HashMap;

fn peer() -> Peer {
    Peer { remote: "10.0.0.9:5555".parse().unwrap(), local: "127.0.0.1:3000".parse().unwrap() }
}

/// Encodes the request, and decodes it as an application does.
fn environ(request: Request<()>) -> HashMap<String, String> {
    let (parts, ()) = request.into_parts();
    let mut out = Pairs(Vec::new());
    target(&mut out, &parts).unwrap();
    fields(&mut out, &parts);
    out.pair("SERVER_NAME", &server_name(&parts, &peer()));
    let text = String::from_utf8(out.0).unwrap();
    let items: Vec<_> = text.strip_suffix('\0').unwrap().split('\0').collect();
    assert_eq!(items.len() % 2, 0);
    items.chunks(2).map(|p| (p[0].to_owned(), p[1].to_owned())).collect()
}

#[test]
fn the_path_is_decoded_and_the_uri_is_not() {
    let e = environ(Request::get("/caf%C3%A9%20x?a=%20b").body(()).unwrap());
    assert_eq!(e["PATH_INFO"], "/café x");
    assert_eq!(e["REQUEST_URI"], "/caf%C3%A9%20x?a=%20b");
    assert_eq!(e["QUERY_STRING"], "a=%20b");
    assert_eq!(e["SCRIPT_NAME"], "");
}

#[test]
fn a_decoded_nul_is_refused() {
    let (parts, ()) = Request::get("/a%00b").body(()).unwrap().into_parts();
    assert!(target(&mut Pairs(Vec::new()), &parts).is_err());
}

#[test]
fn an_incomplete_escape_stays_unchanged() {
    assert_eq!(percent_decode("/%zz%4"), b"/%zz%4");
    assert_eq!(percent_decode("/%2e%2E"), b"/..");
}

#[test]
fn header_fields_become_variables() {
    let e = environ(
        Request::post("/")
            .header("Host", "shop.example:8080")
            .header("X-A", "1")
            .header("X-A", "2")
            .header("Cookie", "a=1")
            .header("Cookie", "b=2")
            .header("Content-Type", "text/plain")
            .header("Content-Length", "3")
            .body(())
            .unwrap(),
    );
    assert_eq!(e["HTTP_X_A"], "1, 2");
    assert_eq!(e["HTTP_COOKIE"], "a=1; b=2");
    assert_eq!((&*e["CONTENT_TYPE"], &*e["CONTENT_LENGTH"]), ("text/plain", "3"));
    assert_eq!((&*e["HTTP_HOST"], &*e["SERVER_NAME"]), ("shop.example:8080", "shop.example"));
    assert!(!e.contains_key("HTTP_CONTENT_TYPE"));
}

#[test]
fn deceptive_header_fields_are_left_out() {
    let e = environ(
        Request::get("/")
            .header("Proxy", "http://evil")
            .header("X_Forwarded_For", "1.2.3.4")
            .header("Connection", "X-Hop")
            .header("X-Hop", "1")
            .header("Expect", "100-continue")
            .body(())
            .unwrap(),
    );
    assert!(e.keys().all(|k| !k.starts_with("HTTP_")), "{e:?}");
    assert_eq!(e["SERVER_NAME"], "127.0.0.1");
}

#[test]
fn a_reply_may_arrive_in_any_pieces() {
    let reply = b"Status: 201 Created\r\nX: 1\nX: 2\r\nContent-Length: 2\r\n\r\nhi";
    for end in 0..reply.len() - 2 {
        assert!(parse_head(&reply[..end]).unwrap().is_none(), "{end}");
    }
    let head = parse_head(reply).unwrap().unwrap();
    assert_eq!((head.status.as_u16(), head.size), (201, reply.len() - 2));
    assert_eq!(head.content_length, Some(2));
    assert_eq!(head.headers.get_all("x").iter().count(), 2);
    assert!(!head.headers.contains_key("status"));
}

#[test]
fn malformed_replies_are_refused() {
    for bad in [
        "Status: none\r\n\r\n",
        "Status: 100 Continue\r\n\r\n",
        "Status: 200\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Status: 200\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "Status: 200\r\nContent-Length: +1\r\n\r\n",
        "no colon here\r\n\r\n",
        "Bad Name: 1\r\n\r\n",
        "Status: 200\r\nX: a\0b\r\n\r\n",
    ] {
        assert!(parse_head(bad.as_bytes()).is_err(), "{bad:?}");
    }
}

#[test]
fn a_head_without_end_is_refused_at_the_limit() {
    let mut reply = b"Status: 200\r\nX: ".to_vec();
    reply.resize(MAX_REPLY_HEAD, b'x');
    assert!(parse_head(&reply).is_err());
    reply.truncate(MAX_REPLY_HEAD - 1);
    assert!(parse_head(&reply).unwrap().is_none());
}
