//! Answers: those without a body, interim ones, broken ones, and the ways to frame a body.

use super::case::{Case, Section, Step, send, send_node};

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn head(path: &str) -> String {
    format!("HEAD {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn old(path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: test\r\n\r\n")
}

/// An answer of the application that no client can use.
fn broken(name: &'static str, kind: &str) -> Case {
    send_node(name, get(&format!("/raw/{kind}"))).gets(502)
}

/// An answer that the application breaks off: the client must notice.
fn cut(name: &'static str, kind: &str) -> Case {
    send_node(name, get(&format!("/raw/{kind}"))).step(Step::BreaksOff)
}

pub(super) fn sections() -> Vec<Section> {
    vec![
        Section {
            title: "Answers without a body",
            about: "An answer to HEAD, 1xx, 204 and 304 end with their head (RFC 9112, 6.3).",
            options: &[],
            cases: vec![
                send("HEAD with a length", head("/a"))
                    .head(200)
                    .with("content-length", "10")
                    .open(),
                send("HEAD of a stream", head("/stream"))
                    .head(200)
                    .without("content-length")
                    .open(),
                send_node("HEAD", head("/a")).head(200).open(),
                send_node("HEAD of a stream", head("/stream")).head(200).open(),
                send("204", get("/204"))
                    .gets(204)
                    .without("content-length")
                    .without("transfer-encoding")
                    .open(),
                send("304", get("/304"))
                    .gets(304)
                    .with("etag", "\"x\"")
                    .without("transfer-encoding")
                    .open(),
                send_node("204", get("/status/204")).gets(204).without("transfer-encoding").open(),
                send_node("304", get("/status/304")).gets(304).without("transfer-encoding").open(),
                send("205 has an empty body", get("/205")).gets(205).open(),
                send_node("a body in the answer to HEAD is dropped", head("/raw/headbody"))
                    .head(200)
                    .open(),
            ],
        },
        Section {
            title: "Interim answers",
            about: "103 and 102 of the application are passed on, except to HTTP/1.0 (RFC 9110, 15.2).",
            options: &[],
            cases: vec![
                send_node("103", get("/hints"))
                    .gets(103)
                    .with("link", "</style.css>; rel=preload")
                    .text("GET /hints []")
                    .open(),
                send_node("102", get("/processing")).gets(102).text("GET /processing []").open(),
                send_node("103 to HTTP/1.0", old("/hints")).text("GET /hints []").closed(),
                send_node("103 to HEAD", head("/hints")).gets(103).head(200).open(),
            ],
        },
        Section {
            title: "Framing",
            about: "A body has a length, or chunks, or for HTTP/1.0 the end of the connection (RFC 9112, 6).",
            options: &[],
            cases: vec![
                send("a length", get("/a")).text("GET /a []").with("content-length", "9").open(),
                send("a stream", get("/stream"))
                    .text("one two three")
                    .with("transfer-encoding", "chunked")
                    .open(),
                send("a stream to HTTP/1.0", old("/stream"))
                    .text("one two three")
                    .without("transfer-encoding")
                    .closed(),
                send(
                    "a stream to HTTP/1.0 with keep-alive",
                    "GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                )
                .text("one two three")
                .without("transfer-encoding")
                .closed(),
                send_node("a stream", get("/stream")).text("one two three").open(),
                send_node("a stream to HTTP/1.0", old("/stream"))
                    .text("one two three")
                    .without("transfer-encoding")
                    .closed(),
                send_node(
                    "an application that ends the body with the connection",
                    get("/raw/untilclose"),
                )
                .text("until the end")
                .open(),
                send_node("an application that speaks HTTP/1.0", get("/raw/http10"))
                    .text("until the end")
                    .open(),
                send_node(
                    "an application that sends a length and chunks: the chunks count",
                    get("/raw/both"),
                )
                .text("")
                .open(),
                send_node("trailers of the application", get("/raw/trailers")).text("ok").open(),
                send("bytes beyond the length are dropped", get("/long")).text("four").open(),
                send_node("a second answer of the application is dropped", get("/raw/twice"))
                    .text("ok")
                    .open(),
                send("a date", get("/a")).gets(200).without("status").open(),
                send_node("fields of one hop are dropped", get("/raw/hophop"))
                    .text("ok")
                    .with("x-public", "1")
                    .without("x-private")
                    .without("keep-alive")
                    .open(),
            ],
        },
        Section {
            title: "Broken answers",
            about: "An answer that cannot be used is a 502. One that breaks off never looks complete.",
            options: &[],
            cases: vec![
                broken("two lengths", "lengths"),
                broken("no HTTP", "garbage"),
                broken("no answer", "nothing"),
                cut("half a body", "half"),
                cut("half a chunk", "halfchunk"),
                cut("a broken chunk", "badchunk"),
                send("fewer bytes than the length", get("/short")).step(Step::BreaksOff),
            ],
        },
    ]
}
