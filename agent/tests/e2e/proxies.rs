//! Proxies in front of the agent: only trusted ones say who the client is.

use crate::agent::{Agent, wsgi};
use tempfile::TempDir;

fn app() -> TempDir {
    wsgi("", "return answer(environ['wsgi.url_scheme'] + ' ' + environ['REMOTE_ADDR'])")
}

const FIELDS: [(&str, &str); 2] =
    [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", "https")];

#[test]
fn only_a_trusted_proxy_says_who_the_client_is() {
    let dir = app();
    let agent = Agent::start(dir.path(), &[]);
    let reply = agent.client().request("GET", "/", &FIELDS, b"").unwrap();
    assert_eq!(reply.text(), "http 127.0.0.1");
    let agent = Agent::start(dir.path(), &["--trusted-proxies", "127.0.0.0/8"]);
    let reply = agent.client().request("GET", "/", &FIELDS, b"").unwrap();
    assert_eq!(reply.text(), "https 203.0.113.7");
    assert_eq!(agent.get("/"), "http 127.0.0.1");
}

#[test]
fn the_proxy_protocol_is_read_from_trusted_proxies_only() {
    let dir = app();
    let request = b"PROXY TCP4 203.0.113.9 127.0.0.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let agent = Agent::start(dir.path(), &["--trusted-proxies", "127.0.0.1"]);
    let mut client = agent.client();
    client.send(request).unwrap();
    assert_eq!(client.reply("GET").unwrap().text(), "http 203.0.113.9");
    assert_eq!(client.get("/").unwrap().text(), "http 203.0.113.9", "the address stays");
    assert_eq!(agent.get("/"), "http 127.0.0.1", "the head is optional");
    let agent = Agent::start(dir.path(), &[]);
    let mut client = agent.client();
    client.send(request).unwrap();
    assert_eq!(client.reply("GET").unwrap().status, 400);
}
