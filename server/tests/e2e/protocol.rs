//! The details of HTTP: bodies, limits, broken answers, upgrades.

use crate::server::{Server, Signal, app, eventually, node, wsgi};
use std::io::{Read, Write};

const ECHO: &str = "length = 0\n\
     stream = environ['wsgi.input']\n\
     while True:\n    piece = stream.read(65536)\n    if not piece: break\n    length += len(piece)\n\
     return answer(length)";

#[test]
fn a_chunked_request_reaches_the_application_complete() {
    let apps = [
        wsgi("", ECHO),
        node(
            "http.createServer((q, s) => { let n = 0; q.on('data', d => n += d.length);\n\
             q.on('end', () => s.end(String(n))); }).listen(0);",
        ),
    ];
    for dir in apps {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        client.send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for _ in 0..100 {
            client.send(b"1000\r\n").unwrap();
            client.send(&[b'x'; 0x1000]).unwrap();
            client.send(b"\r\n").unwrap();
        }
        client.send(b"0\r\n\r\n").unwrap();
        let reply = client.reply("POST").unwrap();
        assert_eq!((reply.status, reply.text()), (200, (100 * 0x1000).to_string()));
    }
}

#[test]
fn a_large_upload_is_streamed_in_bounded_memory() {
    let dir = wsgi("", &format!("time.sleep(0.3)\n{ECHO}"));
    let server = Server::start(dir.path(), &[]);
    let body = vec![7; 64 << 20];
    let before = server.memory();
    let mut client = server.client();
    client
        .send(
            format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len())
                .as_bytes(),
        )
        .unwrap();
    let mut most = 0;
    for piece in body.chunks(1 << 20) {
        client.send(piece).unwrap();
        most = most.max(server.memory());
    }
    assert_eq!(client.reply("PUT").unwrap().text(), body.len().to_string());
    let grown = most.saturating_sub(before) >> 10;
    println!("64 MB uploaded; the server grew by at most {grown} KB");
    assert!(grown < 8 << 10, "{grown} KB");
}

#[test]
fn answers_without_a_body_have_none() {
    let dir = wsgi(
        "",
        "if path == '/204':\n    start_response('204 No Content', [])\n    return []\n\
         if path == '/304':\n    start_response('304 Not Modified', [('ETag', '\"x\"')])\n    return []\n\
         return answer('some text')",
    );
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    // One connection for all requests, so that a superfluous body would be read as the next answer.
    let head = client.request("HEAD", "/", &[], b"").unwrap();
    assert_eq!((head.status, head.header("transfer-encoding")), (200, None));
    for status in [204, 304] {
        let reply = client.get(&format!("/{status}")).unwrap();
        assert_eq!((reply.status, reply.body.len()), (status, 0));
    }
    let reply = client.get("/").unwrap();
    assert_eq!(reply.text(), "some text");
    assert!(reply.header("date").is_some() && reply.header("status").is_none());
}

#[test]
fn an_answer_that_breaks_off_is_an_error_for_the_client() {
    let dir = wsgi(
        "import signal",
        "def pieces():\n    yield b'x' * 1000\n    os.kill(os.getpid(), signal.SIGKILL)\n    yield b'y'\n\
         headers = [('Content-Length', '5000')] if path == '/length' else []\n\
         start_response('200 OK', headers)\nreturn pieces()",
    );
    let server = Server::start(dir.path(), &[]);
    for path in ["/length", "/close"] {
        assert!(server.client().get(path).is_err(), "{path}");
    }
    server.logs("ended early");
}

#[test]
fn requests_beyond_the_limits_are_refused() {
    let dir = wsgi("", ECHO);
    let server = Server::start(
        dir.path(),
        &["--max-body", "1000", "--max-header-size", "8192", "--header-timeout", "0.3"],
    );
    let large = server.client().request("POST", "/", &[], &[b'x'; 1001]).unwrap();
    assert_eq!(large.status, 413);
    let just = server.client().request("POST", "/", &[], &[b'x'; 1000]).unwrap();
    assert_eq!(just.text(), "1000");
    let mut chunked = server.client();
    chunked
        .send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n")
        .unwrap();
    chunked.send(&[b'x'; 2000]).unwrap();
    assert_eq!(chunked.reply("POST").unwrap().status, 413);

    let long = "x".repeat(20_000);
    let reply = server.client().request("GET", "/", &[("X", &long)], b"").unwrap();
    assert_eq!(reply.status, 431);
    assert_eq!(server.client().get("/a%00b").unwrap().status, 400);

    let mut slow = server.client();
    slow.send(b"GET / HTTP/1.1\r\nHost:").unwrap();
    let mut rest = Vec::new();
    slow.stream.read_to_end(&mut rest).unwrap(); // the server hangs up
}

#[test]
fn a_client_that_stalls_does_not_hold_a_process() {
    let apps = [
        wsgi("", &format!("if path == '/big': return answer('x' * (64 << 20))\n{ECHO}")),
        node(
            "http.createServer((q, s) => {\n\
               if (q.url === '/big') return s.end('x'.repeat(64 << 20));\n\
               let n = 0; q.on('data', d => n += d.length); q.on('end', () => s.end(String(n)));\n\
             }).listen(0);",
        ),
    ];
    for dir in apps {
        let concurrency = "--force-max-concurrent-requests-per-process=1";
        let mut options = vec!["--max-pool-size", "1", concurrency, "--client-timeout", "0.3"];
        options.extend(["--log-level", "debug"]);
        let server = Server::start(dir.path(), &options);
        let mut sends = server.client();
        sends.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab").unwrap();
        assert_eq!(sends.reply("POST").unwrap().status, 408);
        let mut takes = server.client();
        takes.send(b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        assert_eq!(server.client().request("POST", "/", &[], b"abc").unwrap().text(), "3");
        // From here on the client would read: the server must have cut it off before.
        server.logs("the client does not read its response");
        assert!(takes.reply("GET").is_err(), "the server did not cut the client off");
    }
}

#[test]
fn a_body_that_breaks_off_is_the_clients_fault() {
    let apps = [
        wsgi("", ECHO),
        node(
            "http.createServer((q, s) => {\n\
        q.on('data', () => {}); q.on('end', () => s.end('whole')); }).listen(0);",
        ),
    ];
    for dir in apps {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        client
            .send(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n")
            .unwrap();
        assert_eq!(client.reply("POST").unwrap().status, 400);
        assert!(!server.log().contains("no answer"), "{}", server.log());
    }
}

#[test]
fn headers_reach_the_application_and_httpoxy_does_not() {
    let dir = wsgi("", "return answer('\\n'.join(f'{k}={v}' for k, v in sorted(environ.items())))");
    let server = Server::start(dir.path(), &[]);
    let headers =
        [("Host", "test"), ("X-One", "1"), ("Proxy", "evil"), ("X_One", "2"), ("Cookie", "a=b")];
    let reply = server.client().request("GET", "/a%20b?c=d", &headers, b"").unwrap();
    let text = reply.text();
    for line in [
        "PATH_INFO=/a b\n",
        "QUERY_STRING=c=d\n",
        "REQUEST_URI=/a%20b?c=d\n",
        "HTTP_X_ONE=1\n",
        "HTTP_COOKIE=a=b\n",
        "REMOTE_ADDR=127.0.0.1\n",
        "SERVER_NAME=test\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("HTTP_PROXY") && !text.contains("CONNECT_PASSWORD"), "{text}");
}

#[test]
fn an_upgrade_passes_through_both_ways() {
    let dir = node(
        "const server = http.createServer((q, s) => s.end('plain'));\n\
         server.on('upgrade', (q, socket) => {\n\
           socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\n' +\n\
             'Connection: Upgrade\\r\\n\\r\\n');\n\
           socket.on('data', d => socket.write('echo ' + d)); });\nserver.listen(0);",
    );
    let mut server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/"), "plain");
    let mut client = server.client();
    let reply =
        client.request("GET", "/", &[("Connection", "Upgrade"), ("Upgrade", "echo")], b"").unwrap();
    assert_eq!((reply.status, reply.header("upgrade")), (101, Some("echo")));
    for word in ["one", "two"] {
        client.stream.get_mut().write_all(word.as_bytes()).unwrap();
        let mut echo = [0; 8];
        client.stream.read_exact(&mut echo).unwrap();
        assert_eq!(echo, format!("echo {word}").as_bytes());
    }
    // A tunnel may stay open for ever, so a shutdown closes it.
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

/// The application ends its output, and reads nothing. Nothing else would end the session.
#[test]
fn an_upgraded_connection_ends_if_one_side_has_ended_and_the_other_is_stuck() {
    let dir = node(
        "const server = http.createServer((q, s) => s.end('plain'));\n\
         server.on('upgrade', (q, socket) => {\n\
           socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: x\\r\\n' +\n\
             'Connection: Upgrade\\r\\n\\r\\n');\n\
           setTimeout(() => socket.end('x'), 500); });\nserver.listen(0);",
    );
    let one = "--force-max-concurrent-requests-per-process";
    let options = ["--max-pool-size", "1", one, "1", "--drain-timeout", "1"];
    let server = Server::start(dir.path(), &options);
    let mut client = server.client();
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "x")];
    assert_eq!(client.request("GET", "/", &upgrade, b"").unwrap().status, 101);
    client.stream.get_mut().write_all(&vec![0; 1 << 20]).unwrap();
    let mut last = [0];
    client.stream.read_exact(&mut last).unwrap();
    assert_eq!(server.get("/"), "plain");
}

#[test]
fn the_output_of_the_application_becomes_log_lines() {
    let dir = wsgi(
        "print('loading')",
        "print('to stdout')\nprint('to stderr', file=sys.stderr)\nreturn answer('ok')",
    );
    let server = Server::start(dir.path(), &["--log-format", "json"]);
    server.get("/");
    let pid = server.pids()[0];
    server.logs(&format!("App {pid} stdout: loading"));
    server.logs(&format!("App {pid} stdout: to stdout"));
    server.logs(&format!("App {pid} stderr: to stderr"));
    for line in server.log().lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_loader_that_re_executes_itself_is_served() {
    let dir = app(
        "passenger_wsgi.py",
        "import os, sys\n\
         if 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    \
         os.execl(sys.executable, sys.executable, *sys.argv)\n\
         def application(environ, start_response):\n    \
         start_response('200 OK', [])\n    return [b'second']\n",
    );
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.get("/"), "second");
    eventually("one process", || (server.children().len() == 1).then_some(()));
}

#[test]
fn a_client_that_is_still_sending_can_read_the_refusal_of_its_upload() {
    let login = wsgi("", "return answer('log in first', '401 Unauthorized')");
    let server = Server::start(login.path(), &[]);
    let small = Server::start(login.path(), &["--max-body", "1000"]);
    // The body exceeds the buffers of the sockets, so the server must read it for the client to go on.
    let body = vec![b'x'; 16 << 20];
    for (server, status) in [(&server, 401), (&small, 413)] {
        let mut client = server.client();
        for _ in 0..20 {
            let reply = client.request("POST", "/", &[], &body).unwrap();
            assert_eq!(reply.status, status);
        }
        assert_eq!(client.get("/").unwrap().status, 401, "the connection stays usable");
    }
}

#[test]
fn the_server_does_not_wait_for_a_body_that_it_refused_before_it_was_sent() {
    let login = wsgi("", "return answer('')");
    let server = Server::start(login.path(), &["--max-body", "1000"]);
    let mut client = server.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n";
    client.send(head.as_bytes()).unwrap();
    assert_eq!(client.reply("POST").unwrap().status, 413);
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
}

#[test]
fn an_answer_may_have_many_header_fields_in_both_protocols() {
    let apps = [
        wsgi(
            "",
            "start_response('200 OK', [(f'X-{i}', 'x') for i in range(200)])\nreturn [b'many']",
        ),
        node(
            "http.createServer((q, s) => { for (let i = 0; i < 200; i++) s.setHeader('X-' + i, 'x');\n\
             s.end('many'); }).listen(0);",
        ),
    ];
    for dir in apps {
        let server = Server::start(dir.path(), &[]);
        let reply = server.client().get("/").unwrap();
        assert_eq!((reply.status, reply.header("x-199")), (200, Some("x")), "{}", reply.text());
    }
}
