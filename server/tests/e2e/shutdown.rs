//! The end of a server, graceful and forced. Neither leaves a process or a file behind.

use crate::asgi::websocket;
use crate::server::{
    Server, Signal, after, app, command, eventually, example, is_alive, node, run, start_command,
    wsgi,
};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Asserts that the instance directory and the processes are gone.
fn assert_clean(server: &Server, pids: &[u32]) {
    let left: Vec<_> = fs::read_dir(server.runtime.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    for &pid in pids {
        assert!(!is_alive(pid), "process {pid} is still alive");
    }
}

#[test]
fn every_signal_to_stop_lets_a_slow_request_finish() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let dir = wsgi("", "time.sleep(0.7)\nreturn answer('finished')");
        let (command, runtime) = with_sighup("SIG_DFL", dir.path());
        let mut server = Server::start_with(command, runtime);
        let pids = server.pids();
        let mut idle = server.client();
        let mut client = server.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        server.signal(signal);
        assert_eq!(client.reply("GET").unwrap().text(), "finished");
        assert!(server.ended().success());
        assert!(idle.get("/").is_err(), "an idle connection stayed open");
        assert_clean(&server, &pids);
    }
}

#[test]
fn a_stop_may_wait_for_the_end_of_the_server() {
    let code = "while not os.path.exists('go'): time.sleep(0.01)\nreturn answer('ok')";
    for limit in [None, Some("0.2")] {
        let dir = wsgi("", code);
        let mut server = Server::start(dir.path(), &[]);
        let pids = server.pids();
        let mut client = server.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        let mut stop = command(server.runtime.path(), &["stop", "--wait"]);
        stop.args(limit).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut stop = stop.spawn().unwrap();
        let mut out = BufReader::new(stop.stdout.take().unwrap());
        let mut text = String::new();
        out.read_line(&mut text).unwrap();
        if limit.is_some() {
            let out = stop.wait_with_output().unwrap();
            let error = String::from_utf8(out.stderr).unwrap();
            assert_eq!(out.status.code(), Some(1));
            assert!(error.contains("has not ended after 0.2 s. It finishes requests"), "{error}");
            continue;
        }
        assert_eq!(stop.try_wait().unwrap(), None);
        fs::write(dir.path().join("go"), "").unwrap();
        assert_eq!(client.reply("GET").unwrap().text(), "ok");
        out.read_to_string(&mut text).unwrap();
        assert_eq!(text, "The server is shutting down.\nThe server has ended.\n");
        assert!(stop.wait().unwrap().success());
        assert!(server.has_ended().unwrap().success());
        assert_clean(&server, &pids);
    }
}

#[test]
fn signals_of_other_servers_are_logged_and_stop_nothing() {
    let dir = wsgi(
        "import signal",
        "return answer(str(signal.getsignal(int(environ['PATH_INFO'][1:]))))",
    );
    let mut server = Server::start(dir.path(), &[]);
    for (signal, text) in [
        (Signal::USR1, "SIGUSR1 has no meaning here, and is ignored: logs need no signal."),
        (
            Signal::USR2,
            "SIGUSR2 has no meaning here, and is ignored: restart by `cabrank restart`.",
        ),
    ] {
        server.signal(signal);
        server.logs(text);
        assert_eq!(server.get(&format!("/{}", signal.as_raw())), "0", "the default");
    }
    server.signal(Signal::TERM);
    assert!(server.ended().success());
}

#[test]
fn a_server_that_shuts_down_says_so_and_refuses_a_restart() {
    let code = "while not os.path.exists('go'): time.sleep(0.01)\nreturn answer('ok')";
    for by_signal in [false, true] {
        let dir = wsgi("", code);
        let mut server = Server::start(dir.path(), &[]);
        let tool = |arguments: &[&str]| run(server.runtime.path(), arguments);
        let mut client = server.client();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
        assert_eq!(server.status()["shutting_down"], false);
        if by_signal {
            server.signal(Signal::TERM);
            eventually("a shutdown", || (server.status()["shutting_down"] == true).then_some(()));
        } else {
            assert!(tool(&["stop"]).status.success());
            assert_eq!(server.status()["shutting_down"], true);
        }
        let status = String::from_utf8(tool(&["status"]).stdout).unwrap();
        assert!(status.contains("\n(shutting down…)\n"), "{status}");
        for arguments in [&["restart"][..], &["restart", "--wait"]] {
            let out = tool(arguments);
            let error = String::from_utf8(out.stderr).unwrap();
            assert_eq!((out.status.code(), out.stdout.len()), (Some(1), 0));
            let begin = format!("the server {} is shutting down. Start it again", server.pid());
            assert!(error.contains(&begin), "{error}");
        }
        fs::write(dir.path().join("go"), "").unwrap();
        assert_eq!(client.reply("GET").unwrap().text(), "ok");
        assert!(server.ended().success());
    }
}

/// The debug line of a request is its record.
#[test]
fn each_request_has_a_record_also_if_a_stop_cuts_it_off_or_its_head_is_unreadable() {
    let dir = wsgi("", "return answer('x' * 50_000_000)");
    let mut server =
        Server::start(dir.path(), &["--log-level", "debug", "--shutdown-timeout", "0.2"]);
    let mut unreadable = server.client();
    unreadable.send(b"no request at all\r\n\r\n").unwrap();
    assert_eq!(unreadable.reply("GET").unwrap().status, 400);
    let processed = || {
        let status = server.status();
        let is_idle = status["active"] == 0;
        is_idle.then(|| status["groups"][0]["processes"][0]["processed"].as_u64().unwrap())
    };
    let before = processed().unwrap();
    // It does not read its answer.
    let mut client = server.client();
    client.send(b"GET /cut HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("the process has answered", || processed().filter(|&now| now > before));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    server.logs("127.0.0.1 - -: Refused, status 400");
    server.logs("cut off by the stop: 127.0.0.1 GET /cut: Unfinished, status 200");
}

#[test]
fn a_head_that_never_ends_does_not_delay_the_shutdown() {
    let dir = wsgi("", "return answer('here')");
    let mut server = Server::start(dir.path(), &[]);
    let mut halves = [server.client(), server.client()];
    halves[0].get("/").unwrap();
    for client in &mut halves {
        client.send(b"GET / HTTP/1.1\r\nHo").unwrap();
    }
    // The server accepted this request after those two, so it is reading them by now.
    server.get("/");
    let asked = std::time::Instant::now();
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    // --shutdown-timeout and --header-timeout are 60 s.
    assert!(asked.elapsed().as_secs() < 20, "{:?}", asked.elapsed());
}

/// Returns the command of a server that starts with this disposition of SIGHUP, whatever the tests inherited.
fn with_sighup(action: &str, dir: &Path) -> (Command, TempDir) {
    let runtime = tempfile::tempdir().unwrap();
    let server = start_command(runtime.path(), dir, &[]);
    let code = format!("import signal; signal.signal(signal.SIGHUP, signal.{action})");
    (after(&code, &server), runtime)
}

#[test]
fn a_server_started_with_sighup_ignored_ignores_it() {
    let dir = wsgi("", "return answer(os.getpid())");
    let (command, runtime) = with_sighup("SIG_IGN", dir.path());
    let mut server = Server::start_with(command, runtime);
    let pids = server.pids();
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let ignored = status.lines().find_map(|l| l.strip_prefix("SigIgn:")).unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "SigIgn: {ignored}");
    server.signal(Signal::HUP);
    assert_eq!(server.get("/"), pids[0].to_string());
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert_clean(&server, &pids);
}

#[test]
fn a_request_that_exceeds_the_shutdown_timeout_is_cut_off() {
    let dir = wsgi("", "time.sleep(30)\nreturn answer('never')");
    let mut server = Server::start(dir.path(), &["--shutdown-timeout", "0.3"]);
    let pids = server.pids();
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    server.logs("--shutdown-timeout");
    assert_clean(&server, &pids);
}

#[test]
fn two_signals_in_quick_succession_count_as_one() {
    let dir = wsgi("", "time.sleep(0.7)\nreturn answer('finished')");
    let mut server = Server::start(dir.path(), &[]);
    let pids = server.pids();
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
    // `timeout` signals the process and then its group. The signals differ here, because the kernel may
    // merge two equal ones.
    let both = format!("kill -s TERM {0}; kill -s INT {0}", server.pid());
    assert!(Command::new("sh").args(["-c", &both]).status().unwrap().success());
    assert_eq!(client.reply("GET").unwrap().text(), "finished");
    assert!(server.ended().success());
    assert_clean(&server, &pids);
}

#[test]
fn a_later_second_signal_ends_the_server_at_once() {
    let dir = wsgi("", "time.sleep(30)\nreturn answer('never')");
    let mut server = Server::start(dir.path(), &[]);
    let pids = server.pids();
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("a busy process", || (server.status()["active"] == 1).then_some(()));
    server.signal(Signal::TERM);
    server.logs("shutting down");
    // Repeat the signal until it comes late enough.
    let end = eventually("the server exits", || {
        server.signal(Signal::TERM);
        server.has_ended()
    });
    assert_eq!(end.code(), Some(1));
    server.logs("ended at once by a second signal");
    eventually("the end of the processes", || pids.iter().all(|p| !is_alive(*p)).then_some(()));
    assert_clean(&server, &pids);
}

#[test]
fn the_stop_command_shuts_the_server_down() {
    let dir = wsgi("", "return answer('ok')");
    let mut server = Server::start(dir.path(), &[]);
    let pids = server.pids();
    assert!(run(server.runtime.path(), &["stop"]).status.success());
    assert!(server.ended().success());
    assert_clean(&server, &pids);
}

#[test]
fn a_process_that_ignores_sigterm_is_killed() {
    let dir = wsgi(
        "import signal, threading",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
         threading.Thread(target=time.sleep, args=(60,)).start()\nreturn answer('ok')",
    );
    let mut server = Server::start(dir.path(), &["--shutdown-timeout", "3"]);
    server.get("/");
    let pids = server.pids();
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert_clean(&server, &pids);
    // The log names what was cut: the process, the time, and the backtrace of its threads.
    server.logs(&format!("App {} does not exit: killing it. It was asked to leave", pids[0]));
    server.logs("most recent call first");
}

/// The time counts from the beginning of the stop. It was 0.0 s once.
#[test]
fn the_log_says_how_long_a_request_has_gone_on_that_is_cut_at_a_stop() {
    let dir = wsgi("", "time.sleep(60)\nreturn answer('ok')");
    let mut server = Server::start(dir.path(), &["--shutdown-timeout", "2"]);
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("the request", || (server.status()["active"].as_u64()? == 1).then_some(()));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    // A second before the deadline.
    server.logs("does not exit: killing it. Its requests have gone on for 1.");
}

/// An ASGI application that works for 7 s after each answer. Its file `done` says that the work has ended.
fn with_background_work() -> TempDir {
    app(
        "asgi.py",
        "import asyncio, os\n\
         async def application(scope, receive, send):\n    \
             if scope['type'] != 'http': return\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
             await send({'type': 'http.response.body', 'body': str(os.getpid()).encode()})\n    \
             if scope['path'] == '/work':\n        \
                 await asyncio.sleep(7)\n        \
                 open('done', 'w').close()\n",
    )
}

/// The work takes longer than the processes had to leave, whatever the options said.
#[test]
fn work_in_the_background_ends_before_its_process_at_a_stop_and_at_a_restart() {
    for how in ["stop", "restart"] {
        let dir = with_background_work();
        let mut server = Server::start(dir.path(), &[]);
        let pids = server.pids();
        server.get("/work");
        assert!(run(server.runtime.path(), &[how]).status.success());
        if how == "stop" {
            assert!(server.ended().success());
        } else {
            server.get("/");
            eventually("the end of the old process", || (!is_alive(pids[0])).then_some(()));
        }
        assert!(dir.path().join("done").exists(), "{how}: the work was cut");
        assert!(!server.log().contains("does not exit"));
    }
}

#[test]
fn work_in_the_background_is_cut_at_the_deadline_and_named() {
    for (how, option) in [("stop", "--shutdown-timeout"), ("restart", "--drain-timeout")] {
        let dir = with_background_work();
        let mut server = Server::start(dir.path(), &[option, "2"]);
        let pids = server.pids();
        server.get("/work");
        assert!(run(server.runtime.path(), &[how]).status.success());
        if how == "stop" {
            assert!(server.ended().success());
        } else {
            server.get("/");
            eventually("the end of the old process", || (!is_alive(pids[0])).then_some(()));
        }
        server.logs(&format!("App {} does not exit: killing it", pids[0]));
        server.logs("GET /work");
        assert!(!dir.path().join("done").exists(), "{how}");
    }
}

/// Work that a request has begun, as the pages of each language describe it: `/work` takes 2 s and then writes the file `done`.
#[test]
fn a_stop_waits_for_work_in_the_background_that_the_application_waits_for() {
    let python = "import threading, time\n\
         def work():\n    time.sleep(2)\n    open('done', 'w').close()\n\
         def application(environ, start_response):\n    \
             if environ['PATH_INFO'] == '/work': threading.Thread(target=work).start()\n    \
             time.sleep(0.1)\n    \
             start_response('200 OK', [])\n    return [b'ok']\n";
    let tasks = "import asyncio\n\
         tasks = set()\n\
         async def work():\n    await asyncio.sleep(2)\n    open('done', 'w').close()\n\
         async def application(scope, receive, send):\n    \
             if scope['type'] == 'lifespan':\n        \
                 await receive()\n        await send({'type': 'lifespan.startup.complete'})\n        \
                 await receive()\n        await asyncio.gather(*tasks)\n        \
                 return await send({'type': 'lifespan.shutdown.complete'})\n    \
             if scope['path'] == '/work': tasks.add(asyncio.create_task(work()))\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
             await send({'type': 'http.response.body', 'body': b'ok'})\n";
    let direct = ["--spawn-method", "direct"];
    let smart = ["--spawn-method", "smart"];
    let cases: [(&str, &str, &[&str]); 4] = [
        ("passenger_wsgi.py", python, &direct),
        ("passenger_wsgi.py", python, &smart),
        ("passenger_wsgi.py", python, &["--app-threads", "4"]),
        ("asgi.py", tasks, &direct),
    ];
    for (file, text, options) in cases {
        let dir = app(file, text);
        let mut server = Server::start(dir.path(), &[options, &["--max-pool-size", "1"]].concat());
        // With threads, each has a request, and a thread other than the first one begins the work, too.
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| server.get("/work"))));
        });
        server.signal(Signal::TERM);
        assert!(server.ended().success());
        assert!(dir.path().join("done").exists(), "{file} {options:?}: the work was cut");
        assert!(!server.log().contains("does not exit"), "{}", server.log());
    }
}

#[test]
fn a_stop_waits_for_threads_of_rack_that_at_exit_joins() {
    let text = "work = []\nat_exit { work.each(&:join) }\n\
         run lambda { |env|\n  \
           work << Thread.new { sleep 2; File.write('done', '') } if env['PATH_INFO'] == '/work'\n  \
           [200, {}, ['ok']]\n}\n";
    for method in ["direct", "smart"] {
        let dir = app("config.ru", text);
        let mut server = Server::start(dir.path(), &["--spawn-method", method]);
        server.get("/work");
        server.signal(Signal::TERM);
        assert!(server.ended().success());
        assert!(dir.path().join("done").exists(), "{method}: the work was cut");
    }
}

#[test]
fn a_stop_waits_for_timers_of_node_that_has_a_handler() {
    let dir = node(
        "process.on('SIGTERM', () => {});\n\
         http.createServer((q, s) => {\n\
           if (q.url === '/work') setTimeout(() => require('fs').writeFileSync('done', ''), 2000);\n\
           s.end('ok'); }).listen(0);",
    );
    let mut server = Server::start(dir.path(), &[]);
    server.get("/work");
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(dir.path().join("done").exists(), "the work was cut");
}

/// A restart gives WebSockets half of `--drain-timeout`. `status` lists their old process until then, and `detach` finds it.
#[test]
fn websockets_of_a_process_that_leaves_are_closed_with_1012() {
    let server =
        Server::start(&example("asgi"), &["--drain-timeout", "8", "--no-rolling-restarts"]);
    let old = server.pids();
    let mut socket = websocket(&server);
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    assert!(server.get("/").contains("ASGI"));
    let detached = run(server.runtime.path(), &["detach", &old[0].to_string()]);
    assert!(detached.status.success(), "{detached:?}");
    let mut frame = [0; 4];
    socket.stream.read_exact(&mut frame).unwrap();
    assert_eq!((frame[0], u16::from_be_bytes([frame[2], frame[3]])), (0x88, 1012));
    socket.send(&[&[0x88, 0x82, 0, 0, 0, 0], &frame[2..]].concat()).unwrap();
    eventually("the end of the old process", || (!is_alive(old[0])).then_some(()));
}

/// An ASGI application with WebSockets. `/wait` is answered once the file `go` exists.
fn that_waits() -> TempDir {
    app(
        "asgi.py",
        "import asyncio, os\n\
         async def application(scope, receive, send):\n    \
             if scope['type'] == 'lifespan': return\n    \
             if scope['type'] == 'websocket':\n        \
                 await receive()\n        await send({'type': 'websocket.accept'})\n        \
                 while (await receive())['type'] != 'websocket.disconnect': pass\n        \
                 return\n    \
             while scope['path'] == '/wait' and not os.path.exists('go'): await asyncio.sleep(0.01)\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
             await send({'type': 'http.response.body', 'body': b'ok'})\n",
    )
}

/// The process of the WebSocket has an open request, which must not keep the close frame back.
#[test]
fn websockets_are_told_of_a_stop_and_of_a_restart_while_a_request_goes_on() {
    for (how, code) in [("stop", 1001), ("restart", 1012)] {
        let dir = that_waits();
        // Upgraded connections have half of it. The request has the rest.
        let options = ["--drain-timeout", "12", "--no-rolling-restarts"];
        let mut server = Server::start(dir.path(), &options);
        let pids = server.pids();
        let mut socket = websocket(&server);
        let mut slow = server.client();
        slow.ask("/wait").unwrap();
        eventually("two sessions", || {
            (server.status()["groups"][0]["processes"][0]["sessions"] == 2).then_some(())
        });
        assert!(run(server.runtime.path(), &[how]).status.success());
        if how == "restart" {
            // The pool replaces the process for a request.
            assert_eq!(server.get("/"), "ok");
        }
        let mut frame = [0; 4];
        socket.stream.read_exact(&mut frame).unwrap();
        assert_eq!((frame[0], u16::from_be_bytes([frame[2], frame[3]])), (0x88, code));
        // The client answers with the same frame, masked by zeros. The reason follows the code.
        let mut reason = vec![0; usize::from(frame[1]) - 2];
        socket.stream.read_exact(&mut reason).unwrap();
        socket.send(&[&[0x88, 0x82, 0, 0, 0, 0], &frame[2..]].concat()).unwrap();
        assert_eq!(socket.stream.read(&mut [0]).unwrap(), 0);
        fs::write(dir.path().join("go"), "").unwrap();
        assert_eq!(slow.reply("GET").unwrap().text(), "ok");
        if how == "stop" {
            assert!(server.ended().success());
            assert_clean(&server, &pids);
        } else {
            eventually("the end of the old process", || (!is_alive(pids[0])).then_some(()));
        }
        assert!(!server.log().contains("does not exit"), "{}", server.log());
    }
}

/// The body never ends, and so no process has the request. Processes were asked to leave only at the deadline once.
#[test]
fn a_client_without_a_process_takes_no_time_from_processes() {
    let dir = app(
        "asgi.py",
        "import asyncio\n\
         async def application(scope, receive, send):\n    \
             if scope['type'] == 'lifespan':\n        \
                 await receive()\n        await send({'type': 'lifespan.startup.complete'})\n        \
                 await receive()\n        await asyncio.sleep(1)\n        open('done', 'w').close()\n        \
                 return await send({'type': 'lifespan.shutdown.complete'})\n    \
             await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
             await send({'type': 'http.response.body', 'body': b'ok'})\n",
    );
    let mut server = Server::start(dir.path(), &["--shutdown-timeout", "12"]);
    let pids = server.pids();
    let mut client = server.client();
    client.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nabc").unwrap();
    // The server accepted this request after the other, so it is reading the body by now.
    server.get("/");
    server.signal(Signal::TERM);
    server.logs("half of --shutdown-timeout");
    eventually("the end of the process", || (!is_alive(pids[0])).then_some(()));
    assert!(dir.path().join("done").exists(), "the process was cut");
    assert!(!server.log().contains("does not exit"), "{}", server.log());
    drop(client);
    assert!(server.ended().success());
    assert_clean(&server, &pids);
}

/// An application that ends its upgraded connections itself, and one that leaves them to its end.
#[test]
fn an_upgraded_connection_ends_with_its_process() {
    for (farewell, last) in [("socket.end('bye'); process.exitCode = 0;", "bye"), ("", "")] {
        let dir = node(&format!(
            "const server = http.createServer((q, s) => s.end('ok')).listen(0);\n\
             server.on('upgrade', (q, socket) => {{\n\
               socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: echo\\r\\nConnection: Upgrade\\r\\n\\r\\n');\n\
               socket.on('error', () => {{}});\n\
               socket.on('data', (d) => socket.write(d));\n\
               process.on('SIGTERM', () => {{ {farewell} }}); }});"
        ));
        // The second application ends at the deadline only.
        let mut server = Server::start(dir.path(), &["--shutdown-timeout", "3"]);
        let pids = server.pids();
        let mut client = server.client();
        let upgrade = [("Connection", "Upgrade"), ("Upgrade", "echo")];
        assert_eq!(client.request("GET", "/", &upgrade, b"").unwrap().status, 101);
        server.signal(Signal::TERM);
        server.logs("shutting down");
        let mut seen = String::new();
        client.stream.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, last);
        assert!(server.ended().success());
        assert_clean(&server, &pids);
    }
}
