//! Crashes: the server replaces dead processes unnoticed, and processes end with a killed server.

use crate::server::{Server, Signal, app, eventually, is_alive, node, signal, wsgi};
use cabrank_checks_harness::Load;
use std::time::{Duration, Instant};

#[test]
fn a_process_killed_between_requests_is_replaced() {
    let apps = [
        wsgi("", "return answer(os.getpid())"),
        node("http.createServer((q, s) => s.end(String(process.pid))).listen(0);"),
    ];
    for dir in apps {
        let server = Server::start(dir.path(), &[]);
        let mut client = server.client();
        for _ in 0..3 {
            let pid: u32 = client.get("/").unwrap().text().parse().unwrap();
            signal(pid, Signal::KILL);
            let reply = client.get("/").unwrap();
            assert_eq!(reply.status, 200, "{}", reply.text());
            assert_ne!(reply.text(), pid.to_string());
        }
        server.logs("ended unexpectedly: signal: 9");
        server.logs("is leaving: it is gone");
        assert!(!server.log().contains("is leaving: requested"));
    }
}

/// A process that has answered, and then refuses connections, is no failed start: one page would stop the application.
#[test]
fn processes_that_stop_to_listen_after_an_answer_are_replaced_at_once() {
    let dir = app(
        "server.py",
        "import os, socket, sys, time\n\
         listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n\
         while True:\n    \
             connection, _ = listener.accept()\n    \
             # The server's look whether this port accepts connections sends nothing.\n    \
             if connection.recv(65536): break\n\
         listener.close()\n\
         body = str(os.getpid())\n\
         head = f'HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n'\n\
         connection.sendall((head + body).encode())\n\
         connection.close()\n\
         time.sleep(600)\n",
    );
    let options = ["--start-command", "python3 server.py $PORT", "--max-pool-size", "1"];
    let server = Server::start(dir.path(), &options);
    let mut client = server.client();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..6 {
        let reply = client.get("/").unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert!(seen.insert(reply.text()));
    }
}

/// Nothing is missing for the client, and its connection stays.
#[test]
fn an_answer_is_whole_if_its_process_ends_while_it_cleans_up() {
    let dir = wsgi(
        "class Body:\n    \
             def __init__(self, end): self.end = end\n    \
             def __iter__(self): yield b'whole'\n    \
             def close(self): self.end()\n\
         def fail(): raise RuntimeError('cannot clean up')\n\
         ENDS = {'/kill': lambda: os.kill(os.getpid(), 9), '/fail': fail, '/': lambda: None}",
        "start_response('200 OK', [('Content-Length', '5')]); return Body(ENDS[environ['PATH_INFO']])",
    );
    let server = Server::start(dir.path(), &[]);
    let mut client = server.client();
    for path in ["/kill", "/", "/fail", "/", "/kill"] {
        let reply = client.get(path).unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "whole"), "{path}");
    }
    server.logs("ended unexpectedly: signal: 9");
    server.logs("cannot clean up");
}

#[test]
fn a_crash_is_noticed_without_a_request() {
    let dir = wsgi("", "return answer(os.getpid())");
    let server = Server::start(dir.path(), &[]);
    let pid: u32 = server.get("/").parse().unwrap();
    signal(pid, Signal::KILL);
    eventually("a new process without a request", || {
        let pids = server.pids();
        (pids.len() == 1 && pids[0] != pid).then_some(())
    });
    assert!(
        !std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "the process is still a zombie"
    );
}

#[test]
fn no_get_fails_while_processes_are_killed_under_load() {
    let apps = [
        ("wsgi", wsgi("", "return answer('ok')")),
        ("node", node("http.createServer((q, s) => s.end('ok')).listen(0);")),
    ];
    for (name, dir) in apps {
        let server = Server::start(dir.path(), &["--max-pool-size", "3", "--min-instances", "2"]);
        let load = Load::start(server.address, "/", 16);
        let begun = Instant::now();
        let mut killed = 0;
        // Four seconds, or more on a machine that starts new processes slowly.
        while begun.elapsed() < Duration::from_secs(4)
            || killed <= 5 && begun.elapsed() < Duration::from_secs(60)
        {
            // Never kill the only process.
            let pids = server.pids();
            if pids.len() > 1 {
                let victim = pids[killed % pids.len()];
                signal(victim, Signal::KILL);
                killed += 1;
                // A request is repeated once, and would fail if both attempts met a kill. No request begins at this process
                // once the server knows of its end. The requests in progress then end before the next kill.
                eventually("the end is noticed", || {
                    (!server.pids().contains(&victim)).then_some(())
                });
                let have_ended = load.in_progress();
                eventually("the requests have ended", || have_ended().then_some(()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let seen = load.stop();
        println!(
            "{name}: {} answered, {} failed, {killed} processes killed, longest {:?}",
            seen.answered,
            seen.failed.len(),
            seen.longest
        );
        assert!(seen.failed.is_empty(), "{:?}", seen.failed);
        assert!(seen.answered > 100 && killed > 5);
    }
}

#[test]
fn a_request_that_kills_its_process_does_not_kill_the_pool() {
    let dir = wsgi(
        "import signal",
        "if path == '/crash': os.kill(os.getpid(), signal.SIGKILL)\nreturn answer('ok')",
    );
    let server = Server::start(dir.path(), &[]);
    assert_eq!(server.client().get("/crash").unwrap().status, 502);
    // POST is not idempotent, so the server does not retry it.
    assert_eq!(server.client().request("POST", "/crash", &[], b"x").unwrap().status, 502);
    assert_eq!(server.get("/"), "ok");
}

#[test]
fn processes_that_end_soon_after_an_answer_are_no_failed_spawns() {
    let dir = wsgi(
        "import threading",
        "threading.Timer(0.05, lambda: os._exit(1)).start()\nreturn answer(os.getpid())",
    );
    let server = Server::start(dir.path(), &[]);
    for _ in 0..5 {
        // A request that meets the end of its process is tried again.
        let reply = server.client().get("/").unwrap();
        assert_eq!(reply.status, 200, "{}", reply.text());
        let pid = reply.text().parse().unwrap();
        eventually("its end", || (!server.pids().contains(&pid)).then_some(()));
    }
}

#[test]
fn a_process_that_stops_listening_is_replaced_and_the_log_says_why() {
    let dir = node(
        // The timer keeps the process alive, so that it refuses the next request.
        "setInterval(() => {}, 1e6);\n\
         const server = http.createServer((q, s) => {\n\
         if (q.url == '/close') server.close();\n\
         s.setHeader('Connection', 'close'); s.end(String(process.pid)) }).listen(0);",
    );
    let server = Server::start(dir.path(), &["--log-format", "json"]);
    let first = server.get("/close");
    assert_ne!(server.get("/"), first);
    server.logs(&format!("process {first} gets no more requests: "));
    let log = server.log();
    let why = log.lines().find(|line| line.contains("gets no more requests: ")).unwrap();
    assert!(why.contains("refused") && why.contains("WARN"), "{log}");
}

#[test]
fn application_processes_end_with_a_killed_server() {
    let apps = [
        wsgi("", "return answer(os.getpid())"),
        node("http.createServer((q, s) => s.end(String(process.pid))).listen(0);"),
    ];
    for dir in apps {
        let mut server = Server::start(dir.path(), &["--min-instances", "2"]);
        eventually("two processes", || (server.pids().len() == 2).then_some(()));
        let pids = server.pids();
        server.signal(Signal::KILL);
        server.ended();
        for pid in pids {
            eventually("the end of the process", || (!is_alive(pid)).then_some(()));
        }
    }
}

#[test]
fn the_error_for_a_removed_directory_does_not_blame_the_interpreter() {
    let dir = wsgi("", "return answer('here')");
    let server = Server::start(dir.path(), &[]);
    let first = server.pids()[0];
    std::fs::remove_dir_all(dir.path()).unwrap();
    signal(first, Signal::KILL);
    let text = eventually("an error page", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 500).then(|| reply.text())
    });
    assert!(text.contains(dir.path().to_str().unwrap()), "{text}");
    assert!(!text.contains("--python"), "{text}");
}

/// A daemon that a process forks holds the connections of its requests open for as long as it lives.
const FORKS: &str = "def die(part=b''):\n    \
    if os.fork() == 0:\n        \
        os.setsid()\n        \
        time.sleep(600)\n        \
        os._exit(0)\n    \
    os.kill(os.getpid(), 9)";

/// The end of a process ends its requests, whoever holds their connections.
#[test]
fn a_client_of_a_dead_process_does_not_wait_for_the_daemon_that_it_has_forked() {
    let wsgi = wsgi(
        FORKS,
        "if path == '/die': die()\n\
         def begins():\n    yield b'begins'\n    die()\n\
         if path == '/part':\n    start_response('200 OK', [])\n    return begins()\n\
         return answer(os.getpid())",
    );
    let asgi = app(
        "asgi.py",
        &format!(
            "import os, time\n{FORKS}\n\
             async def application(scope, receive, send):\n    \
                 if scope['type'] != 'http': return\n    \
                 if scope['path'] == '/die': die()\n    \
                 await send({{'type': 'http.response.start', 'status': 200, 'headers': []}})\n    \
                 if scope['path'] == '/part':\n        \
                     await send({{'type': 'http.response.body', 'body': b'begins', 'more_body': True}})\n        \
                     die()\n    \
                 await send({{'type': 'http.response.body', 'body': str(os.getpid()).encode()}})\n"
        ),
    );
    let generic = app(
        "server.py",
        &format!(
            "import os, time\n{FORKS}\n\
             from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n\
             class Handler(BaseHTTPRequestHandler):\n    \
                 protocol_version = 'HTTP/1.1'\n    \
                 def do_GET(self):\n        \
                     if self.path == '/die': die()\n        \
                     self.send_response(200)\n        \
                     self.send_header('Content-Length', '100' if self.path == '/part' else '2')\n        \
                     self.end_headers()\n        \
                     self.wfile.write(b'begins' if self.path == '/part' else b'ok')\n        \
                     if self.path == '/part': die()\n    \
                 do_POST = do_GET\n\
             ThreadingHTTPServer(('127.0.0.1', int(os.environ['PORT'])), Handler).serve_forever()\n"
        ),
    );
    for (dir, command) in [(wsgi, None), (asgi, None), (generic, Some("python3 server.py"))] {
        let mut options = vec!["--max-pool-size", "2", "--min-instances", "2"];
        options.extend(command.into_iter().flat_map(|command| ["--start-command", command]));
        let server = Server::start(dir.path(), &options);
        for method in ["GET", "POST"] {
            let reply = server.client().request(method, "/die", &[], b"").unwrap();
            assert_eq!(reply.status, 502, "{method}");
            let cut = server.client().request(method, "/part", &[], b"");
            assert!(cut.is_err(), "{method}: the answer has no end: {cut:?}");
        }
        assert!(!server.get("/").is_empty());
    }
}
