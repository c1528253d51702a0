//! Limits: a request of exactly the limit is served, and one byte more is refused.

use super::case::{Case, Section, refused, send};

const HEAD: usize = 8192;

/// Returns a request whose head has this size, its final empty line included.
fn head_of(size: usize) -> String {
    let (start, end) = ("GET /a HTTP/1.1\r\nHost: test\r\nX: ", "\r\n\r\n");
    format!("{start}{}{end}", "x".repeat(size - start.len() - end.len()))
}

/// Returns a request whose head has this size because of its target.
fn target_of(size: usize) -> String {
    let (start, end) = ("GET /", " HTTP/1.1\r\nHost: test\r\n\r\n");
    format!("{start}{}{end}", "x".repeat(size - start.len() - end.len()))
}

fn post(size: usize) -> String {
    let body = "x".repeat(size);
    format!("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: {size}\r\n\r\n{body}")
}

fn chunked(size: usize) -> String {
    let half = "x".repeat(size / 2);
    let rest = "x".repeat(size - size / 2);
    format!(
        "POST / HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{half}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n",
        half.len(),
        rest.len()
    )
}

fn body_taken(name: &'static str, bytes: String, size: usize) -> Case {
    send(name, bytes).text(&format!("POST / [{}]", "x".repeat(size))).open()
}

pub(super) fn sections() -> Vec<Section> {
    vec![Section {
        title: "Limits",
        about: "The head counts from its first byte to the end of its empty line.",
        options: &["--max-header-size", "8192", "--max-body", "1000"],
        cases: vec![
            send("a head of the limit", head_of(HEAD)).text("GET /a []").open(),
            refused("a head of one byte more", head_of(HEAD + 1), &[431]),
            refused("a head far beyond", head_of(20 * HEAD), &[431]),
            send("a target up to the limit", target_of(HEAD)).gets(200).open(),
            refused("a target beyond the limit", target_of(HEAD + 1), &[414, 431]),
            refused(
                "a request line without end",
                "GET /".to_owned() + &"x".repeat(4 * HEAD),
                &[414, 431],
            ),
            body_taken("a body of the limit", post(1000), 1000),
            send("a body of one byte more", post(1001)).gets(413),
            body_taken("a chunked body of the limit", chunked(1000), 1000),
            send("a chunked body of one byte more", chunked(1001)).gets(413),
        ],
    }]
}
