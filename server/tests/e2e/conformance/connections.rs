//! The life of a connection: pipelining, keep-alive, half-close, upgrades.

use super::case::{App, Case, Section, Step, send, send_node};

fn get(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n{fields}\r\n")
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn chunked(path: &str, body: &str) -> String {
    let size = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n{size:x}\r\n{body}\r\n0\r\n\r\n"
    )
}

/// Requests in one packet, and their answers.
fn in_one(app: App, name: &'static str, requests: &[(String, String)]) -> Case {
    let bytes: String = requests.iter().map(|(request, _)| request.as_str()).collect();
    let case = Case { app, ..send(name, bytes) };
    requests.iter().fold(case, |case, (_, text)| case.text(text)).open()
}

fn pipelining(app: App) -> Vec<Case> {
    let gets: Vec<_> =
        (0..10).map(|n| (get(&format!("/{n}"), ""), format!("GET /{n} []"))).collect();
    let mixed: Vec<_> = (0..10)
        .map(|n| {
            let (path, body) = (format!("/{n}"), format!("body {n}"));
            let text = format!("POST {path} [{body}]");
            match n % 3 {
                0 => (post(&path, &body), text),
                1 => (chunked(&path, &body), text),
                _ => (get(&path, ""), format!("GET {path} []")),
            }
        })
        .collect();
    let many: Vec<_> =
        (0..200).map(|n| (post("/", &n.to_string()), format!("POST / [{n}]"))).collect();
    vec![
        in_one(app, "ten requests in one packet", &gets),
        in_one(app, "ten requests, most with a body", &mixed),
        in_one(app, "200 requests", &many),
        in_one(
            app,
            "a slow answer comes before a quick one",
            &[
                (get("/slow", ""), "GET /slow []".into()),
                (get("/quick", ""), "GET /quick []".into()),
            ],
        ),
        Case {
            app,
            ..send(
                "after an answer to HEAD",
                format!("HEAD /a HTTP/1.1\r\nHost: test\r\n\r\n{}", get("/b", "")),
            )
        }
        .head(200)
        .text("GET /b []")
        .open(),
        Case {
            app,
            ..send(
                "not after `Connection: close`",
                get("/a", "Connection: close\r\n") + &get("/b", ""),
            )
        }
        .text("GET /a []")
        .closed(),
    ]
}

fn upgrade(path: &str) -> String {
    get(path, "Connection: Upgrade\r\nUpgrade: echo\r\n")
}

pub(super) fn sections() -> Vec<Section> {
    let half = |app| {
        vec![
            Case { app, ..send("after a request", get("/a", "")) }
                .step(Step::HalfClose)
                .text("GET /a []")
                .closed(),
            Case { app, ..send("after a body", post("/a", "abc")) }
                .step(Step::HalfClose)
                .text("POST /a [abc]")
                .closed(),
            Case { app, ..send("while the application works", get("/slow", "")) }
                .step(Step::HalfClose)
                .text("GET /slow []")
                .closed(),
            Case { app, ..send("after two requests", get("/a", "") + &get("/b", "")) }
                .step(Step::HalfClose)
                .text("GET /a []")
                .text("GET /b []")
                .closed(),
        ]
    };
    vec![
        Section {
            title: "Pipelining",
            about: "Answers come in the order of the requests (RFC 9112, 9.3.2).",
            options: &[],
            cases: [pipelining(App::Wsgi), pipelining(App::Node)].concat(),
        },
        Section {
            title: "Persistence",
            about: "HTTP/1.1 keeps a connection, HTTP/1.0 closes it, unless a side says otherwise (RFC 9112, 9.3).",
            options: &[],
            cases: vec![
                send("HTTP/1.1", get("/a", "")).text("GET /a []").open(),
                send("`Connection: close`", get("/a", "Connection: close\r\n"))
                    .text("GET /a []")
                    .with("connection", "close")
                    .closed(),
                send("among other tokens, in mixed case", get("/a", "Connection: foo, CLOSE\r\n"))
                    .text("GET /a []")
                    .with("connection", "close")
                    .closed(),
                send("in the second of two fields", get("/a", "Connection: foo\r\nConnection: close\r\n"))
                    .text("GET /a []")
                    .closed(),
                send("HTTP/1.0", "GET /a HTTP/1.0\r\n\r\n").text("GET /a []").closed(),
                send("HTTP/1.0 with keep-alive", "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
                    .text("GET /a []")
                    .with("connection", "keep-alive")
                    .open(),
                send_node("HTTP/1.0", "GET /a HTTP/1.0\r\nHost: test\r\n\r\n").text("GET /a []").closed(),
                send_node("`Connection: close`", get("/a", "Connection: close\r\n"))
                    .text("GET /a []")
                    .with("connection", "close")
                    .closed(),
            ],
        },
        Section {
            title: "Half-close",
            about: "A client that ends its side after a request gets its answer.",
            options: &[],
            cases: [
                half(App::Wsgi),
                half(App::Node),
                vec![
                    send("before a request", "").step(Step::HalfClose).closed(),
                    send("within a head", "GET /a HTTP/1.1\r\nHo").step(Step::HalfClose).step(Step::BreaksOff),
                ],
            ]
            .concat(),
        },
        Section {
            title: "Upgrades",
            about: "The server passes `101 Switching Protocols` and both directions behind it (RFC 9110, 7.8).",
            options: &[],
            cases: vec![
                send_node("both directions", upgrade("/"))
                    .gets(101)
                    .with("upgrade", "echo")
                    .with("connection", "upgrade")
                    .send("one")
                    .step(Step::Bytes("echo one"))
                    .send("two")
                    .step(Step::Bytes("echo two")),
                send_node("bytes directly behind the request", upgrade("/") + "early")
                    .gets(101)
                    .step(Step::Bytes("echo early")),
                send_node("the end of one direction", upgrade("/"))
                    .gets(101)
                    .step(Step::HalfClose)
                    .step(Step::Bytes("bye"))
                    .closed(),
                send_node("an upgrade that the application refuses", upgrade("/refuse")).gets(403),
                send_node("`Upgrade` without `Connection: upgrade`", get("/a", "Upgrade: echo\r\n"))
                    .text("GET /a []")
                    .open(),
                send("an application that cannot upgrade", upgrade("/a")).text("GET /a []").open(),
                send("an upgrade to h2c", get("/a", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"))
                    .text("GET /a []")
                    .open(),
                send_node("101 without a request for it", get("/stay/switched", "")).gets(502),
            ],
        },
    ]
}
