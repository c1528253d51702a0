//! ASGI applications: streams in both directions, WebSockets, the lifespan, and the files that identify them.

use crate::server::{Server, app, eventually, example, run, start_command, wsgi_text};
use cabrank_checks_harness::{Client, websocket};
use std::fs;
use std::io::{Read, Write};

/// Connects to the WebSocket `/echo` of the example.
pub(crate) fn websocket(server: &Server) -> Client {
    let mut client = server.client();
    websocket::open(&mut client, "/echo").unwrap();
    client
}

#[test]
fn websockets_pass_and_share_a_process_with_requests() {
    let server = Server::start(&example("asgi"), &[]);
    let mut sockets: Vec<Client> = (0..20).map(|_| websocket(&server)).collect();
    for _ in 0..3 {
        sockets.iter_mut().for_each(|socket| websocket::echo(socket, b"a text").unwrap());
        assert!(server.get("/").contains("Process"));
    }
    assert_eq!(server.pids().len(), 1);
    drop(sockets);
    eventually("the sessions have ended", || {
        let sessions = &server.status()["groups"][0]["processes"][0]["sessions"];
        (sessions.as_u64() == Some(0)).then_some(())
    });
}

#[test]
fn a_large_upload_comes_back_while_it_is_sent() {
    let server = Server::start(&example("asgi"), &["--buffer-request", "0"]);
    let body: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    let reply = server.client().request("POST", "/upload", &[], &body).unwrap();
    assert!(reply.status == 200 && reply.body == body);

    let mut client = server.client();
    client.send(b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none").unwrap();
    assert_eq!(client.head().unwrap().status, 200);
    let mut answer = vec![0; 8];
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"3\r\none\r\n");
    client.stream.get_mut().write_all(b"two").unwrap();
    client.stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"3\r\ntwo\r\n");
}

#[test]
fn a_restart_ends_the_lifespan_and_a_crash_starts_another_process() {
    let server = Server::start(&example("asgi"), &[]);
    assert!(server.get("/").contains("ASGI"));
    let old = server.pids();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    assert!(server.get("/").contains("ASGI"));
    eventually("another process", || (server.pids() != old).then_some(()));
    eventually("the end of the lifespan", || server.log().contains("shut down").then_some(()));
    assert_eq!(server.client().request("POST", "/crash", &[], b"").unwrap().status, 502);
    assert!(server.get("/").contains("ASGI"));
}

#[test]
fn a_start_up_that_fails_is_a_boot_error() {
    let dir = app(
        "main.py",
        "async def app(scope, receive, send):\n    await receive()\n    \
         await send({'type': 'lifespan.startup.failed', 'message': 'no database'})\n",
    );
    let runtime = tempfile::tempdir().unwrap();
    let output = start_command(runtime.path(), dir.path(), &[]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(5) && text.contains("no database"), "{text}");
}

#[test]
fn what_the_callable_takes_decides_between_wsgi_and_asgi() {
    let dir = app("app.py", &wsgi_text("", "return answer(environ['wsgi.version'])"));
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/"), "(1, 0)");
    drop(server);
    fs::write(
        dir.path().join("app.py"),
        "async def app(scope, receive, send):\n    assert scope['type'] == 'http'\n    \
         await send({'type': 'http.response.start', 'status': 200})\n    \
         await send({'type': 'http.response.body', 'body': scope['client'][0].encode()})\n",
    )
    .unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/"), "127.0.0.1");
}

#[test]
fn a_websocket_message_is_bounded_by_an_option() {
    let server = Server::start(&example("asgi"), &["--max-websocket-message", "100"]);
    let mut socket = websocket(&server);
    websocket::echo(&mut socket, &[b'a'; 100]).unwrap();
    // 101 bytes in two fragments.
    let fragment = |opcode, size: u8| {
        [&[opcode, 0x80 | size, 0, 0, 0, 0], &vec![b'a'; size.into()][..]].concat()
    };
    socket.send(&fragment(1, 100)).unwrap();
    socket.send(&fragment(0, 1)).unwrap();
    socket.expect_bytes(b"\x88\x19\x03\xf1the message is too long").unwrap();
}

#[test]
fn an_event_stream_lasts_longer_than_the_time_of_a_request() {
    let dir = app(
        "asgi.py",
        "import asyncio\n\
         async def app(scope, receive, send):\n    \
             assert scope['type'] == 'http'\n    \
             events = scope['path'] == '/events'\n    \
             kind = b'text/event-stream' if events else b'text/plain'\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': [(b'content-type', kind)]})\n    \
             for n in range(20):\n        \
                 await send({'type': 'http.response.body', 'body': b'data: %d\\n\\n' % n, 'more_body': True})\n        \
                 await asyncio.sleep(0.1)\n    \
             await send({'type': 'http.response.body', 'body': b'end'})\n",
    );
    let server = Server::start(dir.path(), &["--max-request-time", "0.5"]);
    assert!(server.get("/events").ends_with("data: 19\n\nend"));
    assert!(!server.log().contains("--max-request-time"));
    // Any other answer is cut.
    assert!(server.client().get("/").is_err());
    server.logs("a request took longer than --max-request-time");
}

#[test]
fn a_websocket_is_compressed_if_its_client_offers_it() {
    let server = Server::start(&example("asgi"), &[]);
    let mut client = server.client();
    let head = "GET /echo HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";
    client.send(head.as_bytes()).unwrap();
    let reply = client.head().unwrap();
    let accepted = "permessage-deflate; server_max_window_bits=12; client_max_window_bits=12";
    assert_eq!((reply.status, reply.header("sec-websocket-extensions")), (101, Some(accepted)));
    // RFC 7692, 7.2.3.1: the text "Hello", compressed. So short an answer is not.
    client.send(b"\xc1\x87\0\0\0\0\xf2\x48\xcd\xc9\xc9\x07\x00").unwrap();
    client.expect_bytes(b"\x81\x05Hello").unwrap();
}
