//! Clients that are slow, or leave: a process is held only while it works.

use crate::server::{HALF_CLOSE, Server, Signal, app, eventually, node, run, wsgi};
use cabrank_checks_harness::Client;
use std::time::{Duration, Instant};

/// Sends a GET without reading its answer.
fn begin(server: &Server, path: &str) -> Client {
    let mut client = server.client();
    client.ask(path).unwrap();
    client
}

fn active(server: &Server) -> u64 {
    server.status()["active"].as_u64().unwrap()
}

#[test]
fn six_slow_senders_hold_no_process() {
    let dir = wsgi("", "return answer(len(environ['wsgi.input'].read()))");
    let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
    let mut slow: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = server.client();
            client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").unwrap();
            client.send(b"a").unwrap();
            client
        })
        .collect();
    for _ in 0..20 {
        let reply = server.client().request("POST", "/", &[], b"abc").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "3"));
        assert_eq!(active(&server), 0);
    }
    for client in &mut slow {
        client.send(b"bcde").unwrap();
        assert_eq!(client.reply("POST").unwrap().text(), "5");
    }
}

#[test]
fn six_slow_readers_hold_no_process() {
    let size = 16 << 20; // more than the sockets and the server's memory take
    let apps = [
        wsgi("", &format!("return answer('x' * {size} if path == '/big' else 'small')")),
        node(&format!(
            "http.createServer((q, s) => s.end(q.url === '/big' ? 'x'.repeat({size}) : 'small'))\
             .listen(0);"
        )),
    ];
    for dir in apps {
        let concurrency = "--force-max-concurrent-requests-per-process=1";
        let server = Server::start(dir.path(), &["--max-pool-size", "1", concurrency]);
        let mut slow: Vec<Client> = (0..6).map(|_| begin(&server, "/big")).collect();
        eventually("an idle process", || (active(&server) == 0).then_some(()));
        for _ in 0..20 {
            assert_eq!(server.get("/"), "small");
        }
        // The answers are complete all the same.
        for client in &mut slow {
            let reply = client.reply("GET").unwrap();
            assert_eq!(reply.body.len(), size);
        }
    }
}

/// The applications take any number of requests, so `--max-requests-in-progress` is the only bound.
#[test]
fn six_slow_readers_hold_no_place_among_the_requests_in_progress() {
    let size = 16 << 20; // more than the sockets and the server's memory take
    let node = node(&format!(
        "http.createServer((q, s) => s.end(q.url === '/big' ? 'x'.repeat({size}) : 'small'))\
         .listen(0);"
    ));
    let asgi = app(
        "asgi.py",
        &format!(
            "async def application(scope, receive, send):\n    \
                 if scope['type'] != 'http': return\n    \
                 body = b'x' * {size} if scope['path'] == '/big' else b'small'\n    \
                 await send({{'type': 'http.response.start', 'status': 200, 'headers': []}})\n    \
                 await send({{'type': 'http.response.body', 'body': body}})\n"
        ),
    );
    let generic = app(
        "server.py",
        &format!(
            "import os\n\
             from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n\
             class Handler(BaseHTTPRequestHandler):\n    \
                 protocol_version = 'HTTP/1.1'\n    \
                 def do_GET(self):\n        \
                     body = b'x' * {size} if self.path == '/big' else b'small'\n        \
                     self.send_response(200)\n        \
                     self.send_header('Content-Length', str(len(body)))\n        \
                     self.end_headers()\n        \
                     self.wfile.write(body)\n\
             ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n"
        ),
    );
    for (dir, command) in [(node, None), (asgi, None), (generic, Some("python3 server.py"))] {
        let mut options = vec!["--max-pool-size", "1", "--max-requests-in-progress", "6"];
        options.extend(command.into_iter().flat_map(|command| ["--start-command", command]));
        let server = Server::start(dir.path(), &options);
        let mut slow: Vec<Client> = (0..6).map(|_| begin(&server, "/big")).collect();
        eventually("an idle process", || (active(&server) == 0).then_some(()));
        assert_eq!(server.get("/"), "small");
        for client in &mut slow {
            assert_eq!(client.reply("GET").unwrap().body.len(), size);
        }
    }
}

#[test]
fn the_next_client_does_not_wait_behind_the_work_of_one_that_left() {
    let dir = wsgi("", "if path == '/slow': time.sleep(3)\nreturn answer(os.getpid())");
    let options = ["--max-pool-size", "3", "--min-instances", "3"];
    let server = Server::start(dir.path(), &options);
    eventually("three processes", || (server.pids().len() == 3).then_some(()));
    for _ in 0..2 {
        let impatient = begin(&server, "/slow");
        std::thread::sleep(HALF_CLOSE);
        drop(impatient);
    }
    // Two processes work on. Each of these requests gets the third one, at once.
    let mut answers: Vec<String> = (0..10).map(|_| server.get("/")).collect();
    assert_eq!(active(&server), 2, "the processes work on");
    answers.dedup();
    assert_eq!(answers.len(), 1, "{answers:?}");
    eventually("the end of the work", || (active(&server) == 0).then_some(()));
    assert_eq!(server.pids().len(), 3);
}

#[test]
fn a_client_that_half_closes_gets_its_answer() {
    let apps = [
        wsgi("", "time.sleep(1)\nreturn answer('done')"),
        node("http.createServer((q, s) => setTimeout(() => s.end('done'), 1000)).listen(0);"),
    ];
    for dir in apps {
        let server = Server::start(dir.path(), &[]);
        let mut client = begin(&server, "/");
        client.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
        let reply = client.reply("GET").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "done"));
        assert_eq!(reply.header("connection"), Some("close"));
    }
}

#[test]
fn a_request_that_takes_too_long_is_answered_504_and_its_process_ends() {
    let dir = wsgi("", "if path == '/hang': time.sleep(600)\nreturn answer(os.getpid())");
    let options = ["--max-request-time", "0.5", "--min-instances", "2"];
    let server = Server::start(dir.path(), &options);
    eventually("two processes", || (server.pids().len() == 2).then_some(()));
    let before = server.pids();
    let mut hangs = begin(&server, "/hang");
    for _ in 0..20 {
        assert!(!server.get("/").is_empty());
    }
    assert_eq!(hangs.reply("GET").unwrap().status, 504);
    server.logs("--max-request-time");
    eventually("the end of one process", || {
        let left = server.children().iter().filter(|pid| before.contains(pid)).count();
        (left == 1).then_some(())
    });
    assert!(!server.get("/").is_empty());
}

#[test]
fn a_process_that_is_about_to_end_gets_no_request() {
    let dir = node(
        "http.createServer((q, s) => { if (q.url != '/hang') s.end(`${process.pid}`) }).listen(0);",
    );
    let server = Server::start(dir.path(), &["--max-pool-size", "1", "--max-request-time", "0.5"]);
    let before = server.get("/");
    let mut hangs = begin(&server, "/hang");
    server.logs("asking for a backtrace");
    assert_ne!(server.get("/"), before, "a request during the backtrace");
    assert_eq!(hangs.reply("GET").unwrap().status, 504);
}

#[test]
fn requests_beyond_the_bound_on_those_in_progress_wait_in_a_queue() {
    let dir = node("http.createServer((q, s) => setTimeout(() => s.end('done'), 2000)).listen(0);");
    let options = ["--max-requests-in-progress", "1", "--max-request-queue-size", "1"];
    let server = Server::start(dir.path(), &options);
    let mut first = begin(&server, "/");
    eventually("a busy process", || (active(&server) == 1).then_some(()));
    let mut others = [begin(&server, "/"), begin(&server, "/")];
    let mut ends = others.each_mut().map(|client| {
        let reply = client.reply("GET").unwrap();
        (reply.status, reply.header("retry-after").map(str::to_owned))
    });
    ends.sort();
    assert_eq!(ends, [(200, None), (503, Some("1".into()))]);
    assert_eq!(first.reply("GET").unwrap().status, 200);
}

#[test]
fn requests_that_wait_for_those_in_progress_are_in_the_queue_of_status() {
    let dir = node("http.createServer((q, s) => setTimeout(() => s.end('done'), 3000)).listen(0);");
    let server = Server::start(dir.path(), &["--max-requests-in-progress", "1"]);
    let mut clients: Vec<_> = (0..6).map(|_| begin(&server, "/")).collect();
    eventually("five requests in the queue", || {
        let status = server.status();
        let queues = [&status["requests_in_queue"], &status["groups"][0]["requests_in_queue"]];
        queues.iter().all(|queue| queue.as_u64() == Some(5)).then_some(())
    });
    drop(clients.split_off(1));
    eventually("an empty queue", || (server.status()["requests_in_queue"] == 0).then_some(()));
    assert_eq!(clients[0].reply("GET").unwrap().status, 200);
}

/// One request waits in the pool for a process, and the other for the first one.
#[test]
fn the_size_of_the_queue_holds_for_both_waits_together() {
    let dir = node("setTimeout(() => http.createServer((q, s) => s.end('done')).listen(0), 2000);");
    let options = ["--max-requests-in-progress", "1", "--max-request-queue-size", "1"];
    let server = Server::start(dir.path(), &options);
    let old = server.pids();
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("no process", || (!server.pids().iter().any(|pid| old.contains(pid))).then_some(()));
    let mut first = begin(&server, "/");
    eventually("the first in the queue", || {
        (server.status()["requests_in_queue"] == 1).then_some(())
    });
    assert_eq!(server.client().get("/").unwrap().status, 503);
    assert_eq!(first.reply("GET").unwrap().status, 200);
}

#[test]
fn a_request_waits_for_those_in_progress_no_longer_than_its_queue_time() {
    let dir = node("http.createServer((q, s) => setTimeout(() => s.end('done'), 2000)).listen(0);");
    let options = ["--max-requests-in-progress", "1", "--max-request-queue-time", "0.3"];
    let server = Server::start(dir.path(), &options);
    let mut first = begin(&server, "/");
    eventually("a busy process", || (active(&server) == 1).then_some(()));
    assert_eq!(server.client().get("/").unwrap().status, 503);
    assert_eq!(first.reply("GET").unwrap().status, 200);
}

#[test]
fn a_request_that_waits_too_long_is_answered_503() {
    let dir = wsgi("", "time.sleep(3)\nreturn answer('done')");
    let options = ["--max-pool-size", "1", "--max-request-queue-time", "0.3"];
    let server = Server::start(dir.path(), &options);
    let mut first = begin(&server, "/");
    eventually("a busy process", || (active(&server) == 1).then_some(()));
    let asked = Instant::now();
    let reply = server.client().get("/").unwrap();
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    println!("refused after {:?}", asked.elapsed());
    assert_eq!(first.reply("GET").unwrap().status, 200);
}

#[test]
fn a_slow_head_and_a_trickling_body_are_ended() {
    let dir = wsgi("", "return answer('here')");
    let options = ["--header-timeout", "1", "--client-timeout", "0"];
    let server = Server::start(dir.path(), &options);
    let mut head = server.client();
    let begun = Instant::now();
    // Each byte comes in time, and the head does not.
    let mut rest = b"GET / HTTP/1.1\r\nHost: a".iter().cycle();
    let mut refused = false;
    while begun.elapsed() < Duration::from_secs(20) && !refused {
        refused = head.send(&[*rest.next().unwrap()]).is_err();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(refused, "the server waits for ever");
}

#[test]
fn a_slow_head_of_the_proxy_protocol_is_ended() {
    let dir = wsgi("", "return answer('here')");
    let options = ["--header-timeout", "1", "--trusted-proxies", "127.0.0.1"];
    let server = Server::start(dir.path(), &options);
    let mut proxy = server.client();
    // A head of version 2, whose rest of 4,096 bytes does not come.
    proxy.send(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x10\x00").unwrap();
    let begun = Instant::now();
    let mut ended = false;
    while begun.elapsed() < Duration::from_secs(20) && !ended {
        // Each byte comes in time, and the head does not.
        ended = proxy.send(b"x").is_err();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(ended, "the server waits for ever");
}

/// SIGSTOP, a debugger and a suspended machine stop the server for longer than its limits. Bytes that come meanwhile are in time.
#[test]
fn the_time_in_which_the_server_is_stopped_counts_against_no_client_and_no_process() {
    let dir = wsgi(
        "",
        "while path == '/wait' and not os.path.exists('go'): time.sleep(0.01)\n\
         return answer(len(environ['wsgi.input'].read()))",
    );
    let limits = [
        "--max-request-time=3",
        "--header-timeout=3",
        "--client-timeout=3",
        "--keep-alive-timeout=3",
        "--max-pool-size=2",
    ];
    let server = Server::start(dir.path(), &limits);
    let mut waiting = begin(&server, "/wait");
    let mut head = server.client();
    head.send(b"GET / HT").unwrap();
    let mut body = server.client();
    body.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab").unwrap();
    let mut kept = server.client();
    assert_eq!(kept.get("/").unwrap().status, 200);
    eventually("the first request", || (active(&server) == 1).then_some(()));
    let pids = server.pids();
    server.signal(Signal::STOP);
    head.send(b"TP/1.1\r\nHost: a\r\n\r\n").unwrap();
    body.send(b"cde").unwrap();
    kept.ask("/").unwrap();
    std::fs::write(dir.path().join("go"), "").unwrap();
    std::thread::sleep(Duration::from_secs(6));
    server.signal(Signal::CONT);
    for (client, method, text) in [
        (&mut waiting, "GET", "0"),
        (&mut head, "GET", "0"),
        (&mut body, "POST", "5"),
        (&mut kept, "GET", "0"),
    ] {
        let reply = client.reply(method).unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, text));
    }
    assert_eq!(server.pids(), pids);
}
