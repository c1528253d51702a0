//! Heads of replies, in HTTP and in the session protocols.

use super::*;
use ReplyFraming::{Chunked, Length, None, UntilClose};

fn http(input: &str, to: AnswerTo) -> Result<ReplyHead, String> {
    let mut head = ReplyHead::default();
    let size = head.parse_http(input.as_bytes(), to)?;
    assert_eq!(size, Some(input.len()), "{input:?}");
    Ok(head)
}

fn cgi(input: &str, to: AnswerTo) -> Result<ReplyHead, String> {
    let mut head = ReplyHead::default();
    let size = head.parse_cgi(input.as_bytes(), to)?;
    assert_eq!(size, Some(input.len()), "{input:?}");
    Ok(head)
}

#[test]
fn the_end_of_a_body_shows_as_the_standard_says() {
    for (input, framing, closes) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", Length(2), false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n", Length(2), false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n", Length(2), true),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", Length(2), true),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\n",
            Length(2),
            false,
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", Chunked, false),
        // The chunks count, but the connection ends.
        ("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n", Chunked, true),
        ("HTTP/1.1 200\r\n\r\n", UntilClose, true),
        ("HTTP/1.1 204 No Content\r\n\r\n", None, false),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", None, false),
        ("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", None, false),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\nConnection: upgrade\r\n\r\n",
            None,
            false,
        ),
        ("HTTP/1.1 299 \r\nContent-Length: 0\r\n\r\n", Length(0), false),
    ] {
        let head = http(input, AnswerTo::Other).unwrap_or_else(|e| panic!("{input:?}: {e}"));
        assert_eq!((head.framing(), head.closes()), (framing, closes), "{input:?}");
        if (200..300).contains(&head.status()) {
            let head = http(input, AnswerTo::Head).unwrap();
            let closes = closes && framing != UntilClose;
            assert_eq!((head.framing(), head.closes()), (None, closes), "HEAD {input:?}");
        }
    }
}

#[test]
fn interim_replies_are_not_the_last() {
    for (status, is_interim, switches) in
        [(100, true, false), (101, false, true), (103, true, false), (200, false, false)]
    {
        let input = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
        let head = http(&input, AnswerTo::Other).unwrap();
        assert_eq!((head.is_interim(), head.switches_protocols()), (is_interim, switches));
    }
}

#[test]
fn a_reply_may_arrive_in_any_pieces() {
    let reply = b"Status: 201 Created\r\nX: 1\nX: 2\r\nContent-Length: 2\r\n\r\nhi";
    let in_http = [b"HTTP/1.1 201 Created\r\n", &reply[21..]].concat();
    let mut head = ReplyHead::default();
    for end in 0..reply.len() - 2 {
        assert_eq!(head.parse_cgi(&reply[..end], AnswerTo::Other), Ok(Option::None), "{end}");
    }
    assert_eq!(head.parse_cgi(reply, AnswerTo::Other), Ok(Some(reply.len() - 2)));
    for end in 0..in_http.len() - 2 {
        assert_eq!(head.parse_http(&in_http[..end], AnswerTo::Other), Ok(Option::None), "{end}");
    }
    assert_eq!(head.parse_http(&in_http, AnswerTo::Other), Ok(Some(in_http.len() - 2)));
    assert_eq!((head.status(), head.reason(), head.framing()), (201, &b"Created"[..], Length(2)));
    assert_eq!((head.fields().count(), head.field("x")), (3, Some(&b"1"[..])));
}

#[test]
fn the_status_of_the_session_protocols() {
    for (input, status, reason) in [
        ("Status: 404 Not here\r\n\r\n", 404, "Not here"),
        ("status:500\r\n\r\n", 500, ""),
        ("Status: 204\t \r\n\r\n", 204, ""),
        ("X: 1\r\n\r\n", 200, ""),
        ("\r\n", 200, ""),
    ] {
        let head = cgi(input, AnswerTo::Other).unwrap_or_else(|e| panic!("{input:?}: {e}"));
        assert_eq!((head.status(), head.reason()), (status, reason.as_bytes()), "{input:?}");
    }
    assert_eq!(cgi("X: 1\r\n\r\n", AnswerTo::Other).unwrap().framing(), UntilClose);
    assert_eq!(cgi("X: 1\r\n\r\n", AnswerTo::Head).unwrap().framing(), None);
}

#[test]
fn malformed_replies_are_refused() {
    for bad in [
        "Status: none\r\n\r\n",
        "Status: 20\r\n\r\n",
        "Status: 2000\r\n\r\n",
        "Status: 099\r\n\r\n",
        "Status: 100 Continue\r\n\r\n",
        "Status: 200\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Status: 200\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "Status: 200\r\nContent-Length: +1\r\n\r\n",
        "no colon here\r\n\r\n",
        "Bad Name: 1\r\n\r\n",
        "Status: 200\r\nX: a\0b\r\n\r\n",
        "Status: 200\r\nX: a\rb\r\n\r\n",
        "Status: 200\r\nX: a\r\n b\r\n\r\n",
    ] {
        assert!(cgi(bad, AnswerTo::Other).is_err(), "{bad:?}");
    }
    for bad in [
        "HTTP/1.1 099 x\r\n\r\n",
        "HTTP/1.1 2000 x\r\n\r\n",
        "HTTP/2.0 200 x\r\n\r\n",
        "Status: 200\r\n\r\n",
        "HTTP/1.1 200 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 x\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.1 200 x\r\nContent-Length: 1, 1\r\n\r\n",
        "HTTP/1.1 200 x\r\nX : 1\r\n\r\n",
    ] {
        assert!(http(bad, AnswerTo::Other).is_err(), "{bad:?}");
    }
}

#[test]
fn a_head_without_end_is_refused_at_the_limit() {
    let mut reply = b"Status: 200\r\nX: ".to_vec();
    reply.resize(MAX_REPLY_HEAD, b'x');
    let mut head = ReplyHead::default();
    assert!(head.parse_cgi(&reply, AnswerTo::Other).is_err());
    head.clear();
    assert_eq!(head.parse_cgi(&reply[1..], AnswerTo::Other), Ok(Option::None));
    assert!(head.parse_cgi(&reply, AnswerTo::Other).is_err());
}

#[test]
fn a_reply_may_have_many_fields_but_not_any_number() {
    let many = |count| format!("Status: 200\r\n{}\r\n", "X: 1\r\n".repeat(count - 1));
    assert!(cgi(&many(MAX_REPLY_FIELDS), AnswerTo::Other).is_ok());
    assert!(cgi(&many(MAX_REPLY_FIELDS + 1), AnswerTo::Other).is_err());
}

#[test]
fn an_interim_reply_of_the_session_protocols_has_a_frame_of_its_own() {
    let parse = |text: &str, is_interim: bool| {
        let mut head = ReplyHead::default();
        let input = text.as_bytes();
        match is_interim {
            true => head.parse_interim(input, AnswerTo::Other),
            false => head.parse_cgi(input, AnswerTo::Other),
        }
    };
    let hints = "Status: 103 Early Hints\r\nLink: a\r\n\r\n";
    assert_eq!(parse(hints, true), Ok(Some(hints.len())));
    assert!(parse(hints, false).is_err());
    for status in ["99", "101", "200", "304"] {
        assert!(parse(&format!("Status: {status}\r\n\r\n"), true).is_err(), "{status}");
    }
    assert_eq!(parse("Status: 103", true), Ok(Option::None));
}
