//! Chunked bodies and `Expect: 100-continue`.

use super::case::{Case, Section, Step, refused, send, send_node};
use super::smuggling::whole;

fn chunked(body: &str) -> String {
    whole("Transfer-Encoding: chunked", body)
}

fn good(name: &'static str, body: &str) -> Case {
    send(name, chunked(body)).text("POST / [abc]").open()
}

fn bad(name: &'static str, body: &str) -> Case {
    refused(name, chunked(body), &[400])
}

fn expecting(path: &str, fields: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n{fields}\r\n\r\n")
}

pub(super) fn sections() -> Vec<Section> {
    let long = "x".repeat(200_000);
    vec![
        Section {
            title: "Chunked bodies",
            about: "Chunks are decoded as RFC 9112, 7.1 has them. A broken one ends the connection.",
            options: &[],
            cases: vec![
                good("one chunk", "3\r\nabc\r\n0\r\n\r\n"),
                good("three chunks", "1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"),
                good("leading zeros", "0000000003\r\nabc\r\n000\r\n\r\n"),
                good("an extension", "3;name=value\r\nabc\r\n0;last\r\n\r\n"),
                good("a quoted extension", "3;name=\"a;b\"\r\nabc\r\n0\r\n\r\n"),
                good("a trailer is dropped", "3\r\nabc\r\n0\r\nX-Trailer: a\r\n\r\n"),
                good(
                    "a length in the trailer is dropped",
                    "3\r\nabc\r\n0\r\nContent-Length: 9\r\n\r\n",
                ),
                send("no data", chunked("0\r\n\r\n")).text("POST / []").open(),
                send(
                    "upper and lower case digits",
                    chunked(&format!("1a\r\n{0}\r\n1A\r\n{0}\r\n0\r\n\r\n", "x".repeat(26))),
                )
                .text(&format!("POST / [{}]", "x".repeat(52)))
                .open(),
                Case {
                    steps: vec![Step::SendEachByte(
                        chunked("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX: y\r\n\r\n").into(),
                    )],
                    ..send("sent byte by byte", "")
                }
                .text("POST / [abcde]")
                .open(),
                send(
                    "the next request follows at once",
                    chunked("3\r\nabc\r\n0\r\n\r\nGET /next HTTP/1.1\r\nHost: test\r\n\r\n"),
                )
                .text("POST / [abc]")
                .text("GET /next []")
                .open(),
                bad("a size beyond 64 bits", "10000000000000003\r\nabc\r\n0\r\n\r\n"),
                bad("a size of 100 digits", &format!("{}\r\nabc\r\n0\r\n\r\n", "f".repeat(100))),
                bad("a negative size", "-3\r\nabc\r\n0\r\n\r\n"),
                bad("a size with a plus sign", "+3\r\nabc\r\n0\r\n\r\n"),
                bad("a size with 0x", "0x3\r\nabc\r\n0\r\n\r\n"),
                bad("a size with an underscore", "0_3\r\nabc\r\n0\r\n\r\n"),
                bad("no size", "\r\nabc\r\n0\r\n\r\n"),
                bad("a space before the size", " 3\r\nabc\r\n0\r\n\r\n"),
                bad("a letter that is no digit", "g\r\nabc\r\n0\r\n\r\n"),
                bad("more data than the size", "3\r\nabcd\r\n0\r\n\r\n"),
                bad("LF alone behind the data", "3\r\nabc\n0\r\n\r\n"),
                bad("CR alone behind the size", "3\rabc\r\n0\r\n\r\n"),
                bad("LF alone behind the size", "3\nabc\r\n0\r\n\r\n"),
                bad("LF alone behind an extension", "3;a\nabc\r\n0\r\n\r\n"),
                bad("a trailer without a colon", "0\r\nX\r\n\r\n"),
                bad("a trailer without a name", "0\r\n: a\r\n\r\n"),
                bad("a space before a trailer's colon", "0\r\nX : a\r\n\r\n"),
                bad(
                    "a request within the trailers",
                    "0\r\nGET /hidden HTTP/1.1\r\nHost: test\r\n\r\n",
                ),
                refused(
                    "an extension without end",
                    chunked(&format!("3;{long}")),
                    &[400, 413, 431],
                ),
                refused(
                    "trailers without end",
                    chunked(&format!("0\r\nX: {long}")),
                    &[400, 413, 431],
                ),
            ],
        },
        Section {
            title: "Expect: 100-continue",
            about: "The server asks for the body when it begins to read it (RFC 9110, 10.1.1).",
            options: &["--max-body", "1000"],
            cases: vec![
                send("the body is asked for", expecting("/", "Content-Length: 3"))
                    .gets(100)
                    .send("abc")
                    .text("POST / [abc]")
                    .open(),
                send_node("the body is asked for", expecting("/", "Content-Length: 3"))
                    .gets(100)
                    .send("abc")
                    .text("POST / [abc]")
                    .open(),
                send("a chunked body is asked for", expecting("/", "Transfer-Encoding: chunked"))
                    .gets(100)
                    .send("3\r\nabc\r\n0\r\n\r\n")
                    .text("POST / [abc]")
                    .open(),
                send(
                    "no body is asked for where there is none",
                    expecting("/", "Content-Length: 0"),
                )
                .text("POST / []")
                .open(),
                send(
                    "a body that is too large is not asked for",
                    expecting("/", "Content-Length: 1001"),
                )
                .gets(413)
                .closed(),
                send(
                    "HTTP/1.0 knows no 100",
                    "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
                )
                .text("POST / [abc]")
                .closed(),
                send("in mixed case", whole("Expect: 100-Continue\r\nContent-Length: 3", ""))
                    .gets(100)
                    .send("abc")
                    .text("POST / [abc]")
                    .open(),
            ],
        },
    ]
}
