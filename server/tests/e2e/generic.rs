//! Applications that start by a command: the port or socket, readiness, boot errors, and the end of a process group.

use crate::server::{Server, Signal, app, eventually, is_alive, run, signal};
use crate::wrong_input::fails;
use cabrank_checks_harness::Load;
use cabrank_checks_harness::processes;
use std::path::Path;
use tempfile::TempDir;

/// A server on the port, or on the Unix socket, in its first argument. `head` runs before it listens.
fn server(head: &str) -> TempDir {
    app(
        "server.py",
        &format!(
            "import os, signal, socketserver, sys, time\n\
             from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer\n\
             class Handler(BaseHTTPRequestHandler):\n    \
                 protocol_version = 'HTTP/1.1'\n    \
                 def do_GET(self):\n        \
                     body = str(os.getpid()).encode()\n        \
                     self.send_response(200)\n        \
                     self.send_header('Content-Length', str(len(body)))\n        \
                     self.end_headers()\n        \
                     self.wfile.write(body)\n    \
                 def log_message(self, *arguments): pass\n    \
                 def address_string(self): return 'someone'\n\
             class UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): pass\n\
             place = sys.argv[1] if len(sys.argv) > 1 else os.environ['PORT']\n\
             {head}\n\
             if place.isdigit():\n    server = ThreadingHTTPServer(('127.0.0.1', int(place)), Handler)\n\
             else:\n    server = UnixServer(place, Handler)\n\
             server.serve_forever()\n"
        ),
    )
}

fn start(dir: &Path, command: &str) -> Server {
    Server::start(dir, &["--start-command", command])
}

/// Returns the processes of the group, except its leader.
fn others_in_group(leader: u32) -> Vec<u32> {
    let others = processes::all().into_iter();
    let others = others.filter(|(pid, stat)| *pid != leader && stat.pgrp as u32 == leader);
    others.map(|(pid, _)| pid).collect()
}

#[test]
fn a_command_serves_on_its_port_or_on_its_socket() {
    let dir = server("");
    for command in ["python3 server.py $PORT", "python3 server.py", "python3 server.py ${SOCKET}"] {
        let server = start(dir.path(), command);
        // The program has taken the place of the shell.
        assert_eq!(server.get("/"), server.pids()[0].to_string(), "{command}");
    }
    std::fs::write(dir.path().join("Procfile"), "web: cd . && python3 server.py $PORT\n").unwrap();
    let server = Server::start(dir.path(), &[]);
    assert_ne!(server.get("/"), server.pids()[0].to_string());
    assert_eq!(server.status()["app_type"], "generic");
}

#[test]
fn a_crashed_command_is_started_again_and_a_restart_replaces_it() {
    let dir = server("");
    let server = start(dir.path(), "python3 server.py $PORT");
    let first = server.get("/");
    signal(first.parse().unwrap(), Signal::KILL);
    let second = eventually("another process", || {
        let reply = server.client().get("/").ok()?;
        (reply.status == 200 && reply.text() != first).then(|| reply.text())
    });
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("a new process", || (server.get("/") != second).then_some(()));
    eventually("the old process ends", || (!is_alive(second.parse().unwrap())).then_some(()));
}

#[test]
fn a_rolling_restart_of_a_command_fails_no_request() {
    let dir = server("");
    let options =
        ["-e", "production", "--min-instances", "2", "--start-command", "python3 server.py $PORT"];
    let server = Server::start(dir.path(), &options);
    let old = eventually("two processes", || {
        let pids = server.pids();
        (pids.len() == 2).then_some(pids)
    });
    let load = Load::start(server.address, "/", 8);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    eventually("only new processes", || {
        let pids = server.pids();
        (pids.len() == 2 && !pids.iter().any(|pid| old.contains(pid))).then_some(())
    });
    let seen = load.stop();
    assert!(seen.failed.is_empty() && seen.answered > 0, "{:?}", seen.failed);
}

#[test]
fn the_error_for_a_command_that_does_not_listen_shows_what_it_does() {
    let (elsewhere, hidden, silent) = (server("place = '0'"), server(""), app("x", ""));
    // Python needs some time to listen.
    let (soon, later) = ("1", "4");
    for (dir, timeout, command, parts) in [
        (&elsewhere, later, "python3 server.py", ["it listens on 127.0.0.1:", "pass $PORT"]),
        (
            &hidden,
            later,
            "setsid --wait timeout 10 python3 server.py",
            ["another program listens on its port", "process group"],
        ),
        (&silent, soon, "echo busy; sleep 600", ["does not listen on the port", "busy"]),
        (&silent, soon, "echo $SOCKET; sleep 600", ["in the variable SOCKET", "--start-timeout"]),
        (
            &silent,
            later,
            "no-such-program $PORT",
            ["exited before it was ready", "no-such-program"],
        ),
        (&silent, later, "sleep 600 &", ["exit status: 0", "stay in the foreground"]),
    ] {
        let options = ["--start-timeout", timeout, "--start-command", command];
        fails(dir.path(), &options, 5, &parts);
    }
}

#[test]
fn a_start_command_that_cannot_be_used_is_refused() {
    let dir = server("");
    for (options, part) in [
        (&["--start-command", " "][..], "empty"),
        (&["--start-command", "x $PORT $SOCKET"], "both $PORT and $SOCKET"),
        (&["--start-command", "x", "--app-type", "node"], "contradicts the application type node"),
        (&["--start-command", "x", "--startup-file", "a.py"], "contradicts the startup file a.py"),
    ] {
        fails(dir.path(), options, 2, &[part, "--start-command"]);
    }
    fails(dir.path(), &["--app-type", "generic"], 3, &["--start-command", "Procfile"]);
}

#[test]
fn no_child_of_the_shell_outlives_its_process() {
    let dir = server("");
    for signal in [Signal::TERM, Signal::KILL] {
        let mut server = start(dir.path(), "sleep 600 & python3 server.py $PORT; true");
        let leader = server.pids()[0];
        let others = others_in_group(leader);
        assert_eq!(others.len(), 2, "a sleep and a server");
        assert!(others.contains(&server.get("/").parse().unwrap()));
        server.signal(signal);
        server.ended();
        for pid in others.into_iter().chain([leader]) {
            eventually("the end of the group", || (!is_alive(pid)).then_some(()));
        }
    }
}

#[test]
fn a_server_behind_a_shell_has_time_to_leave() {
    let dir = server(
        "def leave(signum, frame):\n    \
             time.sleep(0.5)\n    print('said goodbye', flush=True)\n    os._exit(0)\n\
         signal.signal(signal.SIGTERM, leave)",
    );
    let mut server = start(dir.path(), "python3 server.py $PORT; true");
    server.get("/");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    server.logs("said goodbye");
    assert!(!server.log().contains("unexpectedly"), "{}", server.log());
}

#[test]
fn a_program_that_listens_for_other_machines_is_reported() {
    let dir = app("x", "");
    let server = start(dir.path(), "python3 -m http.server --bind 0.0.0.0 $PORT");
    server.get("/");
    server.logs("Let it listen on 127.0.0.1");
}

/// A careless server sends a body with an answer that has none, a moment later. The body looks like an answer, and no
/// other client may get it.
#[test]
fn a_late_body_behind_an_answer_without_one_reaches_no_other_client() {
    // Without TCP_NODELAY the system holds the second part back until the first is acknowledged.
    let at_once = ("pass", "pass");
    let later = ("c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)", "time.sleep(0.0005)");
    for (option, pause) in [at_once, later] {
        late_bodies(option, pause);
    }
}

fn late_bodies(option: &str, pause: &str) {
    let program = "import os, socket, threading, time\n\
         late = b'HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nPOISONED'\n\
         heads = {\n    \
             '/head': b'HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(late),\n    \
             '/204': b'HTTP/1.1 204 No Content\\r\\n\\r\\n',\n    \
             '/304': b'HTTP/1.1 304 Not Modified\\r\\nContent-Length: %d\\r\\n\\r\\n' % len(late),\n    \
             '/long': b'HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\nlong',\n    \
         }\n\
         def serve(c):\n    \
             OPTION\n    \
             data = b''\n    \
             while True:\n        \
                 while b'\\r\\n\\r\\n' not in data:\n            \
                     part = c.recv(65536)\n            \
                     if not part: return\n            \
                     data += part\n        \
                 head, data = data.split(b'\\r\\n\\r\\n', 1)\n        \
                 path = head.split(b' ')[1].decode()\n        \
                 if path not in heads:\n            \
                     c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 4\\r\\n\\r\\ngood')\n            \
                     continue\n        \
                 c.sendall(heads[path])\n        \
                 PAUSE\n        \
                 c.sendall(late)\n\
         listener = socket.create_server(('127.0.0.1', int(os.environ['PORT'])), backlog=100)\n\
         while True:\n    \
             c, _ = listener.accept()\n    \
             threading.Thread(target=serve, args=(c,), daemon=True).start()\n";
    let program = program.replace("OPTION", option).replace("PAUSE", pause);
    let dir = app("server.py", &program);
    let options = ["--start-command", "python3 server.py", "--threads", "1"];
    let server = Server::start(dir.path(), &options);
    let (mut careless, mut other) = (server.client(), server.client());
    for (method, path) in [("HEAD", "/head"), ("GET", "/204"), ("GET", "/304"), ("GET", "/long")] {
        for _ in 0..30 {
            assert!(careless.request(method, path, &[], b"").unwrap().status < 400, "{path}");
            let reply = other.get("/").unwrap();
            assert_eq!((reply.status, reply.text().as_str()), (200, "good"), "{path}");
        }
    }
}

/// A program that does not read a body takes its bytes for the next request. A client hides one there, and no other client may
/// get its answer.
#[test]
fn a_request_that_is_hidden_in_an_unread_body_is_not_served() {
    let dir = server(
        "Handler.do_POST = Handler.do_GET\nHandler.log_message = lambda self, *_: print('saw', self.path, flush=True)",
    );
    let options = ["--start-command", "python3 server.py", "--threads", "1"];
    let server = Server::start(dir.path(), &options);
    let hidden = b"GET /hidden HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n";
    let (mut careless, mut other) = (server.client(), server.client());
    for method in ["GET", "POST", "PUT"] {
        for _ in 0..10 {
            careless.request(method, "/unread", &[], hidden).unwrap();
            assert_eq!(other.get("/next").unwrap().status, 200);
        }
    }
    server.logs("saw /next");
    assert!(!server.log().contains("/hidden"), "{}", server.log());
}

/// The end of a server in `server()` whose main thread ends (`pthread_exit`) with the first request. Its other threads go on.
const WITHOUT_MAIN_THREAD: &str = "import ctypes, threading\n\
     requested = threading.Event()\n\
     class Handler(Handler):\n    \
         def do_GET(self):\n        \
             requested.set()\n        \
             if self.path == '/drop': self.close_connection = True\n        \
             else: super().do_GET()\n\
     server = ThreadingHTTPServer(('127.0.0.1', int(place)), Handler)\n\
     threading.Thread(target=server.serve_forever).start()\n\
     threading.Thread(target=at_end).start()\n\
     requested.wait()\n\
     ctypes.CDLL(None).pthread_exit(None)";

fn main_thread_has_ended(pid: u32) {
    let has_ended = || processes::all().get(&pid).is_some_and(|stat| stat.state == 'Z');
    eventually("the end of the main thread", || has_ended().then_some(()));
    assert!(is_alive(pid), "the other threads go on");
}

#[test]
fn a_program_without_its_main_thread_has_the_time_of_a_stop() {
    let dir = server(&format!(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         shell = os.getppid()\n\
         def at_end():\n    \
             while os.getppid() == shell: time.sleep(0.01)\n    \
             time.sleep(1)\n    \
             open('finished', 'w').close()\n    \
             os._exit(0)\n\
         {WITHOUT_MAIN_THREAD}"
    ));
    let mut server = start(dir.path(), "python3 server.py & wait");
    main_thread_has_ended(server.get("/").parse().unwrap());
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(dir.path().join("finished").exists(), "it was killed before its time");
}

#[test]
fn a_program_without_its_main_thread_serves_on_after_a_broken_connection() {
    let dir = server(&format!("def at_end(): pass\n{WITHOUT_MAIN_THREAD}"));
    let server = start(dir.path(), "exec python3 server.py");
    let first = server.get("/");
    main_thread_has_ended(first.parse().unwrap());
    assert_eq!(server.client().get("/drop").unwrap().status, 502);
    assert_eq!(server.get("/"), first);
    assert_eq!(server.pids()[0].to_string(), first);
}
