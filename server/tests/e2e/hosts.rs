//! The host of a request must be present, single and well-formed (RFC 9112, 3.2 and 3.2.2).

use crate::server::{Server, node, wsgi};
use tempfile::TempDir;

/// Writes two applications that answer with the host and path that they see.
fn apps() -> [TempDir; 2] {
    [
        wsgi(
            "",
            "host = environ.get('HTTP_HOST', '-')\n\
             return answer(f\"{host} {environ['SERVER_NAME']} {environ['REQUEST_URI']}\")",
        ),
        node(
            "http.createServer((q, s) => {\n\
               const host = q.headers.host, name = host.replace(/:[0-9]+$/, '');\n\
               s.end(`${host} ${name} ${q.url}`); }).listen(0);",
        ),
    ]
}

#[test]
fn a_request_without_a_host_or_with_several_is_refused() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        for wrong in [
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nHost: a\r\n",
            "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n",
            "GET http://a/ HTTP/1.1\r\n",
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a, b\r\n",
            "GET / HTTP/1.1\r\nHost: a/b\r\n",
            "GET / HTTP/1.1\r\nHost: me@a\r\n",
            "GET / HTTP/1.1\r\nHost: :80\r\n",
            "GET / HTTP/1.1\r\nHost: a:65536\r\n",
            &format!("GET / HTTP/1.1\r\nHost: a:{}\r\n", "1".repeat(5000)),
        ] {
            let mut client = server.client();
            client.send(format!("{wrong}\r\n").as_bytes()).unwrap();
            let reply = client.reply("GET").unwrap();
            assert_eq!(reply.status, 400, "{wrong:?}: {}", reply.text());
            assert!(reply.text().contains("Host"), "{wrong:?}: {}", reply.text());
        }
    }
}

#[test]
fn the_application_gets_the_host_of_the_request() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        for (request, seen) in [
            ("GET /x HTTP/1.1\r\nHost: a.example:81\r\n", "a.example:81 a.example /x"),
            ("GET /x HTTP/1.1\r\nHost: [::1]:81\r\n", "[::1]:81 [::1] /x"),
            ("GET /x HTTP/1.0\r\nHost: a\r\n", "a a /x"),
            // In the absolute form the target overrides the header.
            ("GET http://example.org/x?y HTTP/1.1\r\nHost: b\r\n", "example.org example.org /x?y"),
            ("GET http://example.org:81 HTTP/1.1\r\nHost:\r\n", "example.org:81 example.org /"),
            ("GET http://example.org/ HTTP/1.0\r\n", "example.org example.org /"),
        ] {
            let mut client = server.client();
            client.send(format!("{request}Connection: keep-alive\r\n\r\n").as_bytes()).unwrap();
            let reply = client.reply("GET").unwrap();
            assert_eq!((reply.status, &*reply.text()), (200, seen), "{request:?}");
        }
    }
}

#[test]
fn an_http_1_0_request_may_have_no_host() {
    for dir in apps() {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let reply = client.reply("GET").unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(reply.text().contains(" 127.0.0.1 /"), "{}", reply.text());
    }
}
