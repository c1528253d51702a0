//! Requests whose length two servers could read differently. Each of them is refused, or has one reading.

use super::case::{Case, Section, refused, send};

/// A request that hides behind another. An answer to it would show the mistake.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n";

/// Returns a POST with these fields and this body, and a hidden request behind it.
fn post(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n{body}{HIDDEN}")
}

/// Returns a POST with these fields and this body alone.
pub(super) fn whole(fields: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: test\r\n{fields}\r\n\r\n{body}")
}

fn bad(name: &'static str, fields: &str, body: &str) -> Case {
    refused(name, post(fields, body), &[400])
}

/// A coding that the server does not have, or one spelled wrong.
fn unknown(name: &'static str, fields: &str) -> Case {
    refused(name, post(fields, "0\r\n\r\n"), &[400, 501])
}

pub(super) fn sections() -> Vec<Section> {
    vec![
        Section {
            title: "Content-Length",
            about: "A length is digits, once (RFC 9112, 6.3).",
            options: &[],
            cases: vec![
                bad("two different lengths", "Content-Length: 3\r\nContent-Length: 4", "abc"),
                bad("the same length twice", "Content-Length: 3\r\nContent-Length: 3", "abc"),
                bad("two lengths in one field", "Content-Length: 3, 4", "abc"),
                bad("a plus sign", "Content-Length: +3", "abc"),
                bad("a minus sign", "Content-Length: -3", "abc"),
                bad("a space within", "Content-Length: 1 2", "abc"),
                bad("a hexadecimal length", "Content-Length: 0x3", "abc"),
                bad("a letter behind", "Content-Length: 3a", "abc"),
                bad("a fraction", "Content-Length: 3.0", "abc"),
                bad("an empty length", "Content-Length:", "abc"),
                bad("a length beyond 64 bits", "Content-Length: 18446744073709551619", "abc"),
                bad(
                    "a length of 100 digits",
                    &format!("Content-Length: {}", "9".repeat(100)),
                    "abc",
                ),
                bad("a space before the colon", "Content-Length : 3", "abc"),
                bad("a field folded over two lines", "Content-Length:\r\n 3", "abc"),
                send("spaces and tabs around", whole("Content-Length: \t 3 \t ", "abc"))
                    .text("POST / [abc]")
                    .open(),
                send("leading zeros", whole("Content-Length: 0003", "abc"))
                    .text("POST / [abc]")
                    .open(),
                send("a name in capitals", whole("CONTENT-LENGTH: 3", "abc"))
                    .text("POST / [abc]")
                    .open(),
                send(
                    "a name with an underscore is another field",
                    whole("Content_Length: 3", HIDDEN),
                )
                .text("POST / []")
                .text("GET /hidden []")
                .open(),
                send(
                    "a GET with a body",
                    "GET /a HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc",
                )
                .text("GET /a [abc]")
                .open(),
            ],
        },
        Section {
            title: "Transfer-Encoding",
            about: "Only `chunked`, alone, in HTTP/1.1, and never beside a length (RFC 9112, 6.1 and 6.3).",
            options: &[],
            cases: vec![
                bad(
                    "length, then chunked",
                    "Content-Length: 5\r\nTransfer-Encoding: chunked",
                    "0\r\n\r\n",
                ),
                bad(
                    "chunked, then length",
                    "Transfer-Encoding: chunked\r\nContent-Length: 5",
                    "0\r\n\r\n",
                ),
                bad(
                    "chunked and length 0",
                    "Content-Length: 0\r\nTransfer-Encoding: chunked",
                    "0\r\n\r\n",
                ),
                refused(
                    "a coding that the server lacks",
                    post("Transfer-Encoding: gzip, chunked", "0\r\n\r\n"),
                    &[501],
                ),
                unknown("chunked is not the last", "Transfer-Encoding: chunked, gzip"),
                unknown("chunked twice", "Transfer-Encoding: chunked, chunked"),
                unknown(
                    "chunked in two fields",
                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
                ),
                unknown(
                    "chunked and identity",
                    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
                ),
                unknown("identity", "Transfer-Encoding: identity"),
                unknown("a letter before", "Transfer-Encoding: xchunked"),
                unknown("a letter behind", "Transfer-Encoding: chunkedx"),
                unknown("quoted", "Transfer-Encoding: \"chunked\""),
                unknown("a parameter", "Transfer-Encoding: chunked;q=1"),
                unknown("a vertical tab before", "Transfer-Encoding: \x0bchunked"),
                unknown("empty", "Transfer-Encoding:"),
                unknown("a comma", "Transfer-Encoding: ,"),
                bad("a space before the colon", "Transfer-Encoding : chunked", "0\r\n\r\n"),
                bad("a field folded over two lines", "Transfer-Encoding:\r\n chunked", "0\r\n\r\n"),
                bad("a bare CR before", "X: y\rTransfer-Encoding: chunked", "0\r\n\r\n"),
                bad("a space before the name", " Transfer-Encoding: chunked", "0\r\n\r\n"),
                refused(
                    "chunked in HTTP/1.0",
                    "POST / HTTP/1.0\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                    &[400],
                ),
                send("a tab before", whole("Transfer-Encoding:\tchunked", "3\r\nabc\r\n0\r\n\r\n"))
                    .text("POST / [abc]")
                    .open(),
                send("in mixed case", whole("tRANSFER-eNCODING: ChunKeD", "3\r\nabc\r\n0\r\n\r\n"))
                    .text("POST / [abc]")
                    .open(),
                send(
                    "a name with an underscore is another field",
                    whole("Transfer_Encoding: chunked", HIDDEN),
                )
                .text("POST / []")
                .text("GET /hidden []")
                .open(),
            ],
        },
    ]
}
