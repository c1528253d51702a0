//! Proxies in front of the server: only trusted ones say who the client is.

use crate::server::{Server, wsgi};
use tempfile::TempDir;

fn app() -> TempDir {
    wsgi("", "return answer(environ['wsgi.url_scheme'] + ' ' + environ['REMOTE_ADDR'])")
}

const FIELDS: [(&str, &str); 2] =
    [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", "https")];

#[test]
fn only_a_trusted_proxy_says_who_the_client_is() {
    let dir = app();
    let server = Server::start(dir.path(), &[]);
    let reply = server.client().request("GET", "/", &FIELDS, b"").unwrap();
    assert_eq!(reply.text(), "http 127.0.0.1");
    let server = Server::start(dir.path(), &["--trusted-proxies", "127.0.0.0/8"]);
    let reply = server.client().request("GET", "/", &FIELDS, b"").unwrap();
    assert_eq!(reply.text(), "https 203.0.113.7");
    assert_eq!(server.get("/"), "http 127.0.0.1");
}

#[test]
fn the_proxy_protocol_is_read_from_trusted_proxies_only() {
    let dir = app();
    let request = b"PROXY TCP4 203.0.113.9 127.0.0.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let server = Server::start(dir.path(), &["--trusted-proxies", "127.0.0.1"]);
    let mut client = server.client();
    client.send(request).unwrap();
    assert_eq!(client.reply("GET").unwrap().text(), "http 203.0.113.9");
    assert_eq!(client.get("/").unwrap().text(), "http 203.0.113.9", "the address stays");
    assert_eq!(server.get("/"), "http 127.0.0.1", "the head is optional");
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    client.send(request).unwrap();
    assert_eq!(client.reply("GET").unwrap().status, 400);
}
