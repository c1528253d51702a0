//! The bytes of heads that the server sends.

use super::*;

fn text(out: Vec<u8>) -> String {
    String::from_utf8(out).unwrap()
}

/// Encodes a reply of an application for a client. `DATE` stands for the current date.
#[track_caller]
fn replied(input: &str, framing: ReplyFraming, connection: ConnectionField) -> String {
    let mut head = ReplyHead::default();
    head.parse_http(input.as_bytes(), AnswerTo::Other).unwrap().unwrap();
    let mut out = Vec::new();
    reply_head(&mut out, &head, framing, connection);
    let out = text(out);
    match out.split_once("Date: ") {
        Some((before, after)) if !input.contains("Date") => {
            assert!(after[..DATE].ends_with(" GMT"), "{after}");
            format!("{before}DATE{}", &after[DATE..])
        }
        _ => out,
    }
}

use ConnectionField::{Absent, Close, KeepAlive};

#[test]
fn replies_keep_the_applications_fields_and_lose_its_framing() {
    for (input, framing, connection, expected) in [
        (
            "HTTP/1.1 200 Fine\r\nX-One: 1\r\nset-cookie: a\r\nset-cookie: b\r\nContent-Length: 5\r\n\r\n",
            ReplyFraming::Length(5),
            Absent,
            "HTTP/1.1 200 Fine\r\nX-One: 1\r\nset-cookie: a\r\nset-cookie: b\r\nContent-Length: 5\r\nDATE\r\n\r\n",
        ),
        (
            "HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\
             Connection: X-Hop, content-length\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nStatus: 200\r\n\r\n",
            ReplyFraming::Chunked,
            Absent,
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nDATE\r\n\r\n",
        ),
        (
            "HTTP/1.1 299 \r\nDate: yesterday\r\nUpgrade: h2c\r\n\r\n",
            ReplyFraming::UntilClose,
            Close,
            "HTTP/1.1 299 \r\nDate: yesterday\r\nConnection: close\r\n\r\n",
        ),
        // The length of a reply to HEAD, and of one that has not changed.
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            ReplyFraming::None,
            KeepAlive,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDATE\r\nConnection: keep-alive\r\n\r\n",
        ),
        (
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            ReplyFraming::None,
            Absent,
            "HTTP/1.1 204 No Content\r\nDATE\r\n\r\n",
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 5\r\n\r\n",
            ReplyFraming::None,
            Close,
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
            ReplyFraming::None,
            Close,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        ),
    ] {
        assert_eq!(replied(input, framing, connection), expected);
    }
}

#[test]
fn a_page_has_its_body_unless_it_answers_head() {
    let later = Page {
        status: 503,
        content_type: "text/plain",
        body: b"later",
        fields: &[("Retry-After", "1")],
    };
    for (to, body) in [(AnswerTo::Other, "later"), (AnswerTo::Head, "")] {
        let mut out = b"before".to_vec();
        page(&mut out, &later, Close, to);
        let out = text(out);
        assert!(
            out.starts_with(
                "beforeHTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
                 Retry-After: 1\r\nContent-Length: 5\r\nDate: "
            ),
            "{out}"
        );
        assert!(out.ends_with(&format!("GMT\r\nConnection: close\r\n\r\n{body}")), "{out}");
    }
}
