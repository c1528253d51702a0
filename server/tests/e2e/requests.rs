//! Requests as they arrive: several at once, in parts, and unusual ones.

use crate::server::{Server, node, wsgi};
use std::time::Duration;
use tempfile::TempDir;

fn apps() -> [TempDir; 2] {
    [
        wsgi(
            "",
            "body = environ['wsgi.input'].read().decode()\n\
             return answer(environ['REQUEST_METHOD'] + ' ' + environ['REQUEST_URI'] + ' ' + body)",
        ),
        node(
            "http.createServer((q, s) => { let body = ''; q.on('data', (d) => body += d);\n\
               q.on('end', () => s.end(`${q.method} ${q.url} ${body}`)); }).listen(0);",
        ),
    ]
}

#[test]
fn requests_that_arrive_at_once_are_answered_in_order() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let mut all = Vec::new();
        for i in 0..50 {
            all.extend_from_slice(format!("GET /{i} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            all.extend_from_slice(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        }
        client.send(&all).unwrap();
        for i in 0..50 {
            assert_eq!(client.reply("GET").unwrap().text(), format!("GET /{i} "));
            assert_eq!(client.reply("POST").unwrap().text(), "POST /p abc");
        }
    }
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let requests: [&[u8]; 2] = [
            b"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;e=1\r\nc\r\n0\r\nT: 1\r\n\r\n",
            b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        ];
        for request in requests {
            for byte in request {
                client.send(&[*byte]).unwrap();
                std::thread::sleep(Duration::from_micros(500));
            }
            assert_eq!(client.reply("POST").unwrap().text(), "POST /x abc");
        }
    }
}

#[test]
fn unusual_targets_and_methods_reach_the_application() {
    // Node itself refuses methods that it does not know.
    let targets = [("GET", "/<a>\"b\"?c=<d>"), ("PURGE", "/x"), ("PING", "/")];
    for (dir, known) in apps().iter().zip([3, 2]) {
        let server = Server::start(dir.path(), &[]);
        for (method, target) in targets.into_iter().take(known) {
            let reply = server.client().request(method, target, &[], b"").unwrap();
            assert_eq!((reply.status, reply.text()), (200, format!("{method} {target} ")));
        }
        let coding = [("Transfer-Encoding", "gzip, chunked")];
        let reply = server.client().request("POST", "/", &coding, b"").unwrap();
        assert_eq!(reply.status, 501);
    }
}

#[test]
fn a_client_that_asks_before_its_body_is_told_to_continue() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        let head =
            "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";
        for _ in 0..2 {
            client.send(head.as_bytes()).unwrap();
            assert_eq!(client.head().unwrap().status, 100);
            client.send(b"abc").unwrap();
            assert_eq!(client.reply("POST").unwrap().text(), "POST /x abc");
        }
    }
}

#[test]
fn a_body_larger_than_the_buffers_is_streamed() {
    for (memory, file) in [("1000", "20000"), ("0", "0")] {
        let options = ["--buffer-request", memory, "--max-buffered-request", file];
        for dir in apps() {
            let server = Server::start(dir.path(), &options);
            let body = vec![b'x'; 1 << 20];
            for _ in 0..3 {
                let reply = server.client().request("PUT", "/x", &[], &body).unwrap();
                assert_eq!((reply.status, reply.body.len()), (200, "PUT /x ".len() + body.len()));
            }
        }
    }
}
