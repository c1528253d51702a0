//! Connections to applications that speak HTTP. A connection is kept only after a complete exchange.

use crate::server::{HALF_CLOSE, Server, Signal, eventually, node, signal};
use cabrank_checks_harness::{Client, Load};
use std::io::{Read, Write};
use std::time::Duration;
use tempfile::TempDir;

/// One thread: each thread has connections of its own.
const ONE: [&str; 2] = ["--threads", "1"];

/// Writes a Node application that numbers its connections.
///
/// `body` is the body of its request handler, with the request `q`, the response `s` and `connection`, the
/// number of the request's connection. `count` is the number of connections so far.
fn numbered(head: &str, body: &str) -> TempDir {
    node(&format!(
        "let count = 0;\n{head}\n\
         const server = http.createServer((q, s) => {{\n\
           const connection = q.socket.number;\n{body}\n}});\n\
         server.on('connection', (socket) => {{ socket.number = ++count; }});\n\
         server.listen(0);"
    ))
}

/// Returns the number of idle connections to the only process.
fn kept(server: &Server) -> u64 {
    server.status()["groups"][0]["processes"][0]["kept_connections"].as_u64().unwrap()
}

#[track_caller]
fn until_kept(server: &Server, number: u64) {
    eventually(&format!("{number} connections kept"), || (kept(server) == number).then_some(()));
}

/// Sends a GET without reading its answer.
fn begin(server: &Server, path: &str) -> Client {
    let mut client = server.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    client
}

#[test]
fn successive_requests_use_one_connection() {
    let dir = numbered("", "q.resume(); s.end(String(connection));");
    let server = Server::start(dir.path(), &ONE);
    for method in ["GET", "POST", "HEAD", "GET", "DELETE"] {
        let body: &[u8] = if method == "POST" { b"some text" } else { b"" };
        let reply = server.client().request(method, "/", &[], body).unwrap();
        assert_eq!(reply.status, 200);
        assert!(method == "HEAD" || reply.text() == "1", "{method} by {}", reply.text());
        until_kept(&server, 1);
    }
}

#[test]
fn simultaneous_requests_have_separate_connections_and_all_are_kept() {
    // Eight requests wait for each other.
    let dir = numbered(
        "const waiting = [];",
        "if (q.url !== '/meet') return s.end(String(connection));\n\
         waiting.push(() => s.end(String(connection)));\n\
         if (waiting.length === 8) waiting.splice(0).forEach((go) => go());",
    );
    let server = Server::start(dir.path(), &ONE);
    for _ in 0..2 {
        let mut clients: Vec<_> = (0..8).map(|_| begin(&server, "/meet")).collect();
        let mut by: Vec<u32> = clients
            .iter_mut()
            .map(|client| client.reply("GET").unwrap().text().parse().unwrap())
            .collect();
        by.sort_unstable();
        assert_eq!(by, [1, 2, 3, 4, 5, 6, 7, 8]);
        until_kept(&server, 8);
    }
}

#[test]
fn a_process_never_has_more_simultaneous_requests_than_its_concurrency() {
    let dir = numbered(
        "let now = 0, most = 0;",
        "if (q.url === '/most') return s.end(most + ' ' + count);\n\
         most = Math.max(most, ++now);\n\
         setImmediate(() => { now--; s.end('ok'); });",
    );
    let concurrency = "--force-max-concurrent-requests-per-process=2";
    let server = Server::start(dir.path(), &["--max-pool-size", "1", concurrency]);
    let load = Load::start(server.address, "/", 8);
    eventually("some requests", || {
        let status = server.status();
        (status["groups"][0]["processes"][0]["processed"].as_u64()? > 500).then_some(())
    });
    let seen = load.stop();
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    let text = server.get("/most");
    let (most, opened) = text.split_once(' ').unwrap();
    assert_eq!(most, "2");
    println!("{} requests over {opened} connections", seen.answered);
    assert!(opened.parse::<usize>().unwrap() * 20 < seen.answered, "{opened} connections");
}

#[test]
fn a_connection_that_the_application_closes_is_not_kept() {
    let dir = numbered(
        "",
        "if (q.url === '/last') s.setHeader('Connection', 'close');\ns.end(String(connection));",
    );
    let server = Server::start(dir.path(), &ONE);
    for number in ["1", "2", "3"] {
        assert_eq!(server.get("/last"), number);
        assert_eq!(kept(&server), 0);
    }
    assert_eq!(server.get("/"), "4");
    until_kept(&server, 1);
}

#[test]
fn an_idle_connection_that_the_process_closed_fails_no_request() {
    let dir = numbered(
        "const open = new Set();\n\
         process.on('SIGUSR2', () => {\n\
           const all = [...open];\n\
           open.clear();\n\
           let left = all.length;\n\
           for (const socket of all) socket.on('close', () => {\n\
             if (--left === 0) console.log('closed up to ' + count); }).destroy(); });",
        "open.add(q.socket);\n\
         q.resume(); s.end(String(connection));",
    );
    let server = Server::start(dir.path(), &ONE);
    let pid = server.pids()[0];
    for number in 1..=10 {
        let reply = server.client().request("POST", "/", &[], b"abc").unwrap();
        assert_eq!((reply.status, reply.text()), (200, number.to_string()));
        until_kept(&server, 1);
        signal(pid, Signal::USR2);
        server.logs(&format!("closed up to {number}"));
    }
    assert_eq!(server.pids(), [pid]);
}

#[test]
fn connections_to_a_killed_process_are_not_reused() {
    let dir = numbered("", "q.resume(); s.end(process.pid + ' ' + connection);");
    let server = Server::start(dir.path(), &ONE);
    for _ in 0..2 {
        // A process that dies after less than a second, for the second time, is not replaced at once.
        std::thread::sleep(Duration::from_millis(1100));
        let before = server.get("/");
        let pid: u32 = before.split(' ').next().unwrap().parse().unwrap();
        signal(pid, Signal::KILL);
        server.logs(&format!("process {pid} ended unexpectedly"));
        let reply = server.client().request("POST", "/", &[], b"abc").unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        let after = reply.text();
        assert!(!after.starts_with(&pid.to_string()) && after.ends_with(" 1"), "{after}");
    }
}

#[test]
fn unrequested_bytes_of_the_application_are_not_taken_for_an_answer() {
    let dir = numbered(
        "",
        // Past the loader's guard, as an application with a loader of its own may do.
        "const { socket } = q;\n\
         const { write } = require('net').Socket.prototype;\n\
         s.end(q.url);\n\
         if (q.url === '/twice') s.on('finish', () => setImmediate(() => {\n\
           socket.on('close', () => console.log('closed ' + connection));\n\
           write.call(socket, 'HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n\\r\\npoison',\n\
             () => console.log('sent by ' + connection)); }));",
    );
    let server = Server::start(dir.path(), &ONE);
    for number in 1..=5 {
        assert_eq!(server.get("/twice"), "/twice");
        server.logs(&format!("sent by {number}"));
    }
    assert_eq!(server.get("/good"), "/good");
    (1..=5).for_each(|number| server.logs(&format!("closed {number}")));
}

#[test]
fn the_connection_of_a_client_that_left_is_closed() {
    let dir = numbered(
        "",
        "if (q.url === '/now') return s.end(String(connection));\n\
         q.socket.on('close', () => console.log('closed ' + connection));\n\
         if (q.url === '/endless') s.write('begun');\n\
         else console.log('thinking ' + connection);",
    );
    let server = Server::start(dir.path(), &ONE);
    // The first client leaves within the answer, the second before it.
    let mut client = begin(&server, "/endless");
    assert_eq!(client.head().unwrap().status, 200);
    std::thread::sleep(HALF_CLOSE);
    drop(client);
    server.logs("closed 1");
    let client = begin(&server, "/silent");
    server.logs("thinking 2");
    std::thread::sleep(HALF_CLOSE);
    drop(client);
    server.logs("closed 2");
    assert_eq!(kept(&server), 0);
    assert_eq!(server.get("/now"), "3");
}

#[test]
fn a_slow_answer_does_not_share_its_connection() {
    let dir = numbered(
        "let slow;",
        "if (q.url === '/slow') { slow = s; return s.write('begun by ' + connection); }\n\
         if (q.url === '/end') slow.end(', ended');\n\
         s.end(String(connection));",
    );
    let server = Server::start(dir.path(), &ONE);
    let mut slow = begin(&server, "/slow");
    assert_eq!(slow.head().unwrap().status, 200);
    let mut first = [0; "A\r\nbegun by 1\r\n".len()];
    slow.stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"a\r\nbegun by 1\r\n");
    for _ in 0..3 {
        assert_eq!(server.get("/"), "2");
        until_kept(&server, 1);
    }
    assert_eq!(server.get("/end"), "2");
    let mut rest = [0; "7\r\n, ended\r\n0\r\n\r\n".len()];
    slow.stream.read_exact(&mut rest).unwrap();
    assert_eq!(&rest, b"7\r\n, ended\r\n0\r\n\r\n");
    until_kept(&server, 2);
}

#[test]
fn a_connection_is_not_reused_while_its_request_is_still_being_sent() {
    let dir = numbered("", "q.resume(); s.end(String(connection));");
    // Without a buffer, the application answers as soon as it has the head.
    let server = Server::start(dir.path(), &["--threads", "1", "--buffer-request", "0"]);
    let mut slow = server.client();
    slow.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").unwrap();
    assert_eq!(slow.reply("POST").unwrap().text(), "1");
    for _ in 0..3 {
        assert_eq!(server.get("/"), "2");
        until_kept(&server, 1);
    }
    slow.send(b"defghi").unwrap();
    until_kept(&server, 2);
}

#[test]
fn an_upgraded_connection_leaves_the_pool() {
    let dir = numbered("", "s.end(String(connection));");
    let file = dir.path().join("app.js");
    let text = std::fs::read_to_string(&file).unwrap()
        + "server.on('upgrade', (q, socket) => {\n\
             socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\n' +\n\
               'Connection: Upgrade\\r\\n\\r\\n');\n\
             socket.on('data', (d) => socket.write(socket.number + ' ' + d)); });\n";
    std::fs::write(file, text).unwrap();
    let server = Server::start(dir.path(), &ONE);
    assert_eq!(server.get("/"), "1");
    until_kept(&server, 1);
    let mut client = server.client();
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "echo")];
    assert_eq!(client.request("GET", "/", &upgrade, b"").unwrap().status, 101);
    assert_eq!(kept(&server), 0);
    assert_eq!(server.get("/"), "2");
    client.stream.get_mut().write_all(b"word").unwrap();
    let mut echo = [0; 6];
    client.stream.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"1 word");
    until_kept(&server, 1);
}

#[test]
fn a_request_without_an_answer_is_retried_once_if_that_is_safe() {
    let dir = numbered(
        "let asked = {};",
        "if (q.url === '/asked') return s.end(JSON.stringify(asked));\n\
         asked[q.method] = (asked[q.method] ?? 0) + 1;\n\
         q.resume(); q.on('end', () => q.socket.destroy());",
    );
    let server = Server::start(dir.path(), &ONE);
    for (method, body) in [("GET", &b""[..]), ("POST", b""), ("PUT", b"abc"), ("DELETE", b"")] {
        assert_eq!(server.client().request(method, "/", &[], body).unwrap().status, 502);
    }
    // Only a safe method is repeated: a second DELETE may remove another thing.
    assert_eq!(server.get("/asked"), r#"{"GET":2,"POST":1,"PUT":1,"DELETE":1}"#);
    assert_eq!(server.status()["processes"], 1);
}
