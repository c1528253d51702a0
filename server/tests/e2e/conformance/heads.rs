//! Request lines, fields, methods and targets.

use super::case::{Case, Section, Step, refused, send, send_node};

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n")
}

fn with(field: &[u8]) -> Vec<u8> {
    [b"GET /a HTTP/1.1\r\nHost: test\r\n", field, b"\r\n\r\n"].concat()
}

fn bad(name: &'static str, bytes: impl AsRef<[u8]>) -> Case {
    refused(name, bytes, &[400])
}

/// The target reaches the application as the client has written it.
fn taken(name: &'static str, target: &str) -> Case {
    send(name, get(target)).text(&format!("GET {target} []")).open()
}

pub(super) fn sections() -> Vec<Section> {
    vec![
        Section {
            title: "Request lines",
            about: "Method, target and version, with one space between them (RFC 9112, 3).",
            options: &[],
            cases: vec![
                send("empty lines before", format!("\r\n\r\n{}", get("/a")))
                    .text("GET /a []")
                    .open(),
                Case {
                    steps: vec![Step::SendEachByte(get("/a").into())],
                    ..send("sent byte by byte", "")
                }
                .text("GET /a []")
                .open(),
                bad("HTTP/0.9", "GET /\r\n\r\n"),
                refused(
                    "HTTP/2 with prior knowledge",
                    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                    &[400, 505],
                ),
                refused("HTTP/3.0", "GET / HTTP/3.0\r\nHost: test\r\n\r\n", &[400, 505]),
                bad("a version in small letters", "GET / http/1.1\r\nHost: test\r\n\r\n"),
                bad("another protocol", "GET / ICY/1.1\r\nHost: test\r\n\r\n"),
                bad("a long version", "GET / HTTP/1.10\r\nHost: test\r\n\r\n"),
                bad("no target", "GET HTTP/1.1\r\nHost: test\r\n\r\n"),
                bad("a space before", format!(" {}", get("/a"))),
                bad("two spaces behind the version", "GET /  HTTP/1.1  \r\nHost: test\r\n\r\n"),
                bad("a space in the target", get("/a b")),
                bad("a tab in place of a space", "GET\t/\tHTTP/1.1\r\nHost: test\r\n\r\n"),
                bad("a bare CR", "GET /a\r HTTP/1.1\r\nHost: test\r\n\r\n"),
                bad("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: test\r\n\r\n"),
                send("NUL, encoded, in the target", get("/a%00b")).gets(400),
                bad("a method with a sign", "G@T / HTTP/1.1\r\nHost: test\r\n\r\n"),
                bad("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
            ],
        },
        Section {
            title: "Targets",
            about: "The target reaches the application unchanged. Absolute form names the host (RFC 9112, 3.2).",
            options: &[],
            cases: vec![
                taken("angle brackets and quotes", "/a<b>\"c"),
                taken("other signs outside the grammar", "/a|b^c{d}'`\\"),
                taken("a query", "/a?b=c&d=<e>"),
                taken("an escape", "/a%20b%3F"),
                taken("two slashes", "//a//b"),
                taken("dots", "/a/../b/./c"),
                send_node("angle brackets and quotes", get("/a<b>\"c"))
                    .text("GET /a<b>\"c []")
                    .open(),
                send("bytes beyond ASCII", get("/caf\u{e9}")).one_of(&[200, 400]),
                send("absolute form", get("http://test/a?b")).text("GET /a?b []").open(),
                send("absolute form without a path", get("http://test")).text("GET / []").open(),
                send(
                    "the host of absolute form wins",
                    "GET http://other/host HTTP/1.1\r\nHost: test\r\n\r\n",
                )
                .text("other")
                .open(),
                send_node(
                    "the host of absolute form wins",
                    "GET http://other/host HTTP/1.1\r\nHost: test\r\n\r\n",
                )
                .text("other"),
                send("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n").gets(200).open(),
                bad("a user in absolute form", get("http://u@test/a")),
                bad("a target without a slash", get("a")),
                send("CONNECT", "CONNECT test:80 HTTP/1.1\r\nHost: test\r\n\r\n")
                    .one_of(&[400, 405, 501]),
            ],
        },
        Section {
            title: "Methods",
            about: "The application decides about methods, also about unknown ones.",
            options: &[],
            cases: [
                "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "PING", "BREW", "get",
                "M-SEARCH", "QUERY",
            ]
            .into_iter()
            .flat_map(|method| {
                let bytes =
                    format!("{method} /a HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
                let wsgi = send(method, &bytes).text(&format!("{method} /a []")).open();
                let known = !matches!(method, "PING" | "BREW" | "get" | "QUERY");
                // Node's own parser refuses methods that it does not know. Node 18 does not know QUERY.
                let node = send_node(method, &bytes);
                let node = if known { node.gets(200) } else { node.one_of(&[200, 400, 501, 502]) };
                [wsgi, node]
            })
            .collect(),
        },
        Section {
            title: "Host",
            about: "Each HTTP/1.1 request has one host (RFC 9112, 3.2).",
            options: &[],
            cases: vec![
                send("no host", "GET / HTTP/1.1\r\n\r\n").gets(400),
                send("two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").gets(400),
                send("the same host twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n")
                    .gets(400),
                send("a space in the host", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n").gets(400),
                send("a path in the host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n").gets(400),
                send("two hosts in one field", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n").gets(400),
                send("a user in the host", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n").gets(400),
                send("an empty host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n").text("GET /a []").open(),
                send("a port", "GET /host HTTP/1.1\r\nHost: a:80\r\n\r\n").text("a:80").open(),
                send("an IPv6 address", "GET /host HTTP/1.1\r\nHost: [::1]:80\r\n\r\n")
                    .text("[::1]:80")
                    .open(),
                send("no host in HTTP/1.0", "GET /a HTTP/1.0\r\n\r\n").text("GET /a []").closed(),
            ],
        },
        Section {
            title: "Fields",
            about: "A name is a token directly before its colon; a value has no control characters (RFC 9112, 5).",
            options: &[],
            cases: vec![
                bad("a field folded over two lines", with(b"X: a\r\n b")),
                bad("a field folded by a tab", with(b"X: a\r\n\tb")),
                bad("a space before the colon", with(b"X : a")),
                bad("a tab before the colon", with(b"X\t: a")),
                bad("a space within the name", with(b"X Y: a")),
                bad("no colon", with(b"X")),
                bad("an empty name", with(b": a")),
                bad("a sign in the name", with(b"X@Y: a")),
                bad("a byte beyond ASCII in the name", with(b"X\xe9: a")),
                bad("NUL in the value", with(b"X: a\0b")),
                bad("NUL in the name", with(b"X\0: a")),
                bad("a control character in the value", with(b"X: a\x01b")),
                bad("DEL in the value", with(b"X: a\x7fb")),
                bad("a bare CR in the value", with(b"X: a\rb")),
                bad("a bare CR in the name", with(b"X\rY: a")),
                bad("a space before the first field", "GET / HTTP/1.1\r\n Host: test\r\n\r\n"),
                send("a byte beyond ASCII in the value", with(b"X: caf\xe9"))
                    .text("GET /a []")
                    .open(),
                send("an empty value", with(b"X:")).text("GET /a []").open(),
                send("a tab in the value", with(b"X: a\tb")).text("GET /a []").open(),
                send("no space behind the colon", with(b"X:a")).text("GET /a []").open(),
                send("90 fields", with(["X: y"; 90].join("\r\n").as_bytes()))
                    .text("GET /a []")
                    .open(),
                send("LF alone ends each line", "GET /a HTTP/1.1\nHost: test\n\n")
                    .text("GET /a []")
                    .open(),
                send("LF alone ends a line", "GET /a HTTP/1.1\r\nHost: test\nX: y\r\n\r\n")
                    .text("GET /a []")
                    .open(),
                send(
                    "a name with an underscore cannot imitate another",
                    "GET /names HTTP/1.1\r\nHost: test\r\nX-A: 1\r\nX_A: 2\r\nX_B: 3\r\n\r\n",
                )
                .text("HTTP_X_A")
                .open(),
            ],
        },
    ]
}
