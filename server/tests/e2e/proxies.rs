//! Proxies in front of the server: only trusted ones say who the client is.

use crate::server::{Server, app, node, wsgi};
use tempfile::TempDir;

/// An application that answers with the scheme, the client's address, and the port or `-`.
fn origin() -> TempDir {
    wsgi(
        "",
        "return answer(' '.join((environ['wsgi.url_scheme'], environ['REMOTE_ADDR'], environ.get('REMOTE_PORT', '-'))))",
    )
}

const FIELDS: [(&str, &str); 2] =
    [("X-Forwarded-For", "203.0.113.7"), ("X-Forwarded-Proto", "https")];

/// Asks a server that has these options, with the fields of a proxy.
fn ask(dir: &TempDir, options: &[&str]) -> (String, Server) {
    let server = Server::start(dir.path(), options);
    let text = server.client().request("GET", "/", &FIELDS, b"").unwrap().text();
    (text, server)
}

#[test]
fn only_a_trusted_proxy_says_who_the_client_is() {
    let dir = origin();
    for options in [&["--trusted-proxies", "none"][..], &["--address", "0.0.0.0"]] {
        let (text, _) = ask(&dir, options);
        assert!(text.starts_with("http 127.0.0.1 "), "{options:?}: {text}");
    }
    for options in [&["--trusted-proxies", "127.0.0.0/8"][..], &["--address", "127.0.0.1"]] {
        let (text, server) = ask(&dir, options);
        assert_eq!(text, "https 203.0.113.7 -", "{options:?}");
        assert!(server.get("/").starts_with("http 127.0.0.1 "), "a client without the fields");
    }
}

#[test]
fn a_server_that_listens_on_the_loopback_alone_trusts_a_local_proxy() {
    let dir = origin();
    let (text, server) = ask(&dir, &[]);
    assert_eq!(text, "https 203.0.113.7 -");
    assert!(!server.log().contains("--trusted-proxies"), "{}", server.log());
    let (text, _) = ask(&dir, &["--trusted-proxies", "10.0.0.1"]);
    assert_eq!(text, "https 203.0.113.7 -", "a list adds to the loopback");
    let (text, _) = ask(&dir, &["--address", "0.0.0.0", "--trusted-proxies", "127.0.0.1"]);
    assert_eq!(
        text, "https 203.0.113.7 -",
        "a list names the loopback for a server on all addresses"
    );
}

#[test]
fn a_field_whose_sender_is_not_trusted_is_logged_once_with_the_option() {
    let dir = origin();
    for options in [&["--trusted-proxies", "none"][..], &["--address", "0.0.0.0"]] {
        let (_, server) = ask(&dir, options);
        for fields in [&FIELDS[..], &[("Forwarded", "for=203.0.113.7")]] {
            server.client().request("GET", "/", fields, b"").unwrap();
        }
        server.logs("127.0.0.1 sends X-Forwarded-For, and is not a trusted proxy");
        let named = server.log().matches("--trusted-proxies 127.0.0.1").count();
        assert_eq!(named, 1, "{}", server.log());
    }
}

#[test]
fn the_proxy_protocol_is_read_from_trusted_proxies_only() {
    let dir = origin();
    let head = b"PROXY TCP4 203.0.113.9 127.0.0.1 1234 80\r\n";
    let request = [&head[..], b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
    for options in [&["--trusted-proxies", "127.0.0.1"][..], &[]] {
        let server = Server::start(dir.path(), options);
        let mut client = server.client();
        client.send(&request).unwrap();
        assert_eq!(client.reply("GET").unwrap().text(), "http 203.0.113.9 1234");
        assert_eq!(client.get("/").unwrap().text(), "http 203.0.113.9 1234", "the address stays");
        assert!(server.get("/").starts_with("http 127.0.0.1 "), "the head is optional");
    }
    let server = Server::start(dir.path(), &["--trusted-proxies", "none"]);
    let mut client = server.client();
    client.send(&request).unwrap();
    assert_eq!(client.reply("GET").unwrap().status, 400);
}

/// Another machine could otherwise pass for a proxy of this one, by a head that its proxy writes.
#[test]
fn an_address_that_the_proxy_protocol_reports_is_trusted_only_if_it_is_listed() {
    let dir = origin();
    let request = b"PROXY TCP4 127.0.0.1 127.0.0.1 1234 80\r\nGET / HTTP/1.1\r\nHost: a\r\n\
                    X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Proto: https\r\n\r\n";
    for (options, expected) in [
        (&[][..], "http 127.0.0.1 1234"),
        (&["--trusted-proxies", "127.0.0.1"], "https 203.0.113.7 -"),
    ] {
        let server = Server::start(dir.path(), options);
        let mut client = server.client();
        client.send(request).unwrap();
        assert_eq!(client.reply("GET").unwrap().text(), expected, "{options:?}");
    }
}

/// Node, with what Express calls `req.ip` with the setting `trust proxy` 1: the entry before the last address of the chain.
fn node_origin() -> TempDir {
    node(
        "const of = ({ socket, headers }) => {\n\
           const chain = [...(headers['x-forwarded-for'] || '').split(/ *, */).filter(Boolean), socket.remoteAddress];\n\
           return [chain[Math.max(0, chain.length - 2)], socket.remoteAddress, socket.remotePort].join(' ');\n\
         };\n\
         const server = http.createServer((q, s) => s.end(of(q))).listen(0);\n\
         server.on('checkContinue', (q, s) => s.end(of(q)));\n\
         server.on('upgrade', (q, socket) => socket.end(`HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: x\\r\\n\
         Connection: upgrade\\r\\n\\r\\n${of(q)}`));",
    )
}

#[test]
fn each_request_to_node_has_the_address_of_its_own_client() {
    let dir = node_origin();
    let server = Server::start(dir.path(), &["--threads", "1"]);
    let mut client = server.client();
    let of =
        |address: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n");
    // One after another, and then in one packet.
    let clients = ["203.0.113.1:11", "6.6.6.6, 203.0.113.2", "[2001:db8::1]:12", "203.0.113.3"];
    let seen = [
        "203.0.113.1:11 203.0.113.1 11",
        "203.0.113.2 203.0.113.2 0",
        "[2001:db8::1]:12 2001:db8::1 12",
        "203.0.113.3 203.0.113.3 0",
    ];
    for (address, expected) in clients.iter().zip(seen) {
        client.send(of(address).as_bytes()).unwrap();
        assert_eq!(client.reply("GET").unwrap().text(), expected);
    }
    client.send(clients.map(of).concat().as_bytes()).unwrap();
    for expected in seen {
        assert_eq!(client.reply("GET").unwrap().text(), expected);
    }
}

#[test]
fn upgrades_and_expectations_of_node_have_the_address_of_their_client() {
    let dir = node_origin();
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    let fields = [("X-Forwarded-For", "203.0.113.1:11"), ("Expect", "100-continue")];
    let mut reply = client.request("POST", "/", &fields, b"x").unwrap();
    // The server asks for the body, unless it has come with the head.
    if reply.status == 100 {
        reply = client.reply("POST").unwrap();
    }
    assert_eq!(reply.text(), "203.0.113.1:11 203.0.113.1 11");
    client
        .send(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nX-Forwarded-For: 203.0.113.2:12\r\n\r\n",
        )
        .unwrap();
    assert_eq!(client.head().unwrap().status, 101);
    client.expect_bytes(b"203.0.113.2:12 203.0.113.2 12").unwrap();
}

#[test]
fn a_client_forges_no_address_by_a_target_like_that_of_the_server() {
    let dir =
        node("http.createServer((q, s) => s.end(`${q.url} ${q.socket.remoteAddress}`)).listen(0);");
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/x,https;6.6.6.6;1,/y"), "/x,https;6.6.6.6;1,/y 127.0.0.1");
}

#[test]
fn requests_and_websockets_of_asgi_have_the_address_of_their_client() {
    let dir = app(
        "asgi.py",
        "async def application(scope, receive, send):\n    \
             body = f\"{scope.get('scheme')} {scope.get('client')}\"\n    \
             if scope['type'] == 'http':\n        \
                 await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n        \
                 await send({'type': 'http.response.body', 'body': body.encode()})\n    \
             if scope['type'] == 'websocket':\n        \
                 await receive()\n        \
                 await send({'type': 'websocket.accept', 'headers': [(b'x-seen', body.encode())]})\n        \
                 await receive()\n",
    );
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    let reply = client.request("GET", "/", &FIELDS, b"").unwrap();
    assert_eq!(reply.text(), "https ('203.0.113.7', 0)");
    let port = client.stream.get_ref().local_addr().unwrap().port();
    assert_eq!(client.get("/").unwrap().text(), format!("http ('127.0.0.1', {port})"));
    client
        .send(
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
              Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Forwarded-For: 203.0.113.8:9\r\nX-Forwarded-Proto: https\r\n\r\n",
        )
        .unwrap();
    let head = client.head().unwrap();
    assert_eq!((head.status, head.header("x-seen")), (101, Some("wss ('203.0.113.8', 9)")));
}
