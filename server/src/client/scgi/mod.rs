//! SCGI, which web servers speak to an application server: `scgi_pass` of nginx, `mod_proxy_scgi` of Apache.
//!
//! A connection carries one request: a netstring of CGI variables, and the body. The answer is a head with a line `Status:`, and
//! the body up to the end of the connection. [`parse`] reads heads, and [`Scgi`] is the client's side.
//!
//! Interim answers are left out, because fronts take them for the answer. An answer 101 makes the connection a tunnel.

pub(crate) mod parse;

use crate::client::http1::encode;
use crate::client::page::Page;
use crate::client::status::reason;
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::head::AnswerTo;
use std::io::Write;

/// The client's side of one request, and of its connection.
#[derive(Debug)]
pub(crate) struct Scgi;

impl Scgi {
    pub(crate) fn push_head(&self, out: &mut Vec<u8>, reply: &ReplyHead) {
        let framing = match reply.framing() {
            ReplyFraming::Chunked => ReplyFraming::UntilClose,
            framing => framing,
        };
        let own = reply.reason();
        status(
            out,
            reply.status(),
            if own.is_empty() { reason(reply.status()).as_bytes() } else { own },
        );
        encode::reply_fields(out, reply, framing);
        out.extend_from_slice(b"\r\n");
    }

    pub(crate) fn push_page(&self, out: &mut Vec<u8>, page: &Page<'_>, to: AnswerTo) {
        status(out, page.status, reason(page.status).as_bytes());
        encode::page_fields(out, page);
        out.extend_from_slice(b"\r\n");
        if to == AnswerTo::Other {
            out.extend_from_slice(page.body);
        }
    }
}

fn status(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "Status: {status} ");
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(reply: &str, to: AnswerTo) -> String {
        let mut parsed = ReplyHead::default();
        parsed.parse_http(reply.as_bytes(), to).unwrap().unwrap();
        let mut out = Vec::new();
        Scgi.push_head(&mut out, &parsed);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_answer_has_a_status_and_no_coding() {
        let date = "Date: x\r\n";
        for (fields, left) in [
            ("Content-Length: 3\r\n", "Content-Length: 3\r\n"),
            ("Transfer-Encoding: chunked\r\n", ""),
            ("Connection: close\r\nKeep-Alive: 1\r\nStatus: 500\r\nX: 1\r\n", "X: 1\r\n"),
        ] {
            let text = head(&format!("HTTP/1.1 404 Gone\r\n{date}{fields}\r\n"), AnswerTo::Other);
            assert_eq!(text, format!("Status: 404 Gone\r\n{date}{left}\r\n"), "{fields}");
        }
        let text =
            head(&format!("HTTP/1.1 200 \r\n{date}Content-Length: 9\r\n\r\n"), AnswerTo::Head);
        assert_eq!(text, format!("Status: 200 OK\r\n{date}Content-Length: 9\r\n\r\n"));
    }

    #[test]
    fn an_answer_that_switches_protocols_names_the_other_one() {
        let text =
            head("HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", AnswerTo::Other);
        assert_eq!(text, "Status: 101 Go\r\nUpgrade: x\r\n\r\n");
    }

    #[test]
    fn a_page_has_a_body_except_to_head() {
        let fields = [("retry-after", "1")];
        let page = Page { status: 503, content_type: "text/plain", body: b"no", fields: &fields };
        for (to, body) in [(AnswerTo::Other, "no"), (AnswerTo::Head, "")] {
            let mut out = Vec::new();
            Scgi.push_page(&mut out, &page, to);
            let out = String::from_utf8(out).unwrap();
            assert!(out.starts_with("Status: 503 Service Unavailable\r\nContent-Type: text/plain\r\nretry-after: 1\r\nContent-Length: 2\r\n"), "{out}");
            assert!(
                out.ends_with(&format!("\r\n\r\n{body}")) && !out.contains("Connection"),
                "{out}"
            );
        }
    }
}
