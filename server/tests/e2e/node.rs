//! Node applications get one process, their client's address, and time for their handlers at the end.

use crate::server::{Server, Signal, app, eventually, node, run};
use cabrank_checks_harness::Client;
use std::io::{Read, Write};

const CLIENTS: usize = 30;

/// An application of Socket.IO's kind: each client has a session in the memory of one process.
///
/// A client opens its session, polls it (the answer comes by a second, simultaneous request), and upgrades to a
/// connection of its own. `head` runs when the application is loaded.
fn sessions(head: &str) -> tempfile::TempDir {
    node(&format!(
        "const sessions = new Map();\n\
         const server = http.createServer((q, s) => {{\n\
           const [, what, id] = q.url.split('/');\n\
           if (what === 'pid') return s.end(String(process.pid));\n\
           if (what === 'open') {{ sessions.set(id, null); return s.end(id); }}\n\
           if (!sessions.has(id)) {{ s.statusCode = 400; return s.end('unknown session'); }}\n\
           if (what === 'poll') return sessions.set(id, s);\n\
           sessions.get(id)?.end('polled ' + id);\n\
           s.end(sessions.get(id) ? 'sent' : 'not polled yet'); }});\n\
         server.on('upgrade', (q, socket) => {{\n\
           const id = q.url.split('/')[2];\n\
           socket.write(sessions.has(id) ? 'HTTP/1.1 101 OK\\r\\nConnection: upgrade\\r\\nUpgrade: x\\r\\n\\r\\n'\n\
             : 'HTTP/1.1 400 Bad\\r\\nContent-Length: 0\\r\\n\\r\\n');\n\
           socket.on('data', (d) => socket.write(d)); }});\n\
         {head}\nserver.listen(0);"
    ))
}

/// One client's life. Returns once its upgraded connection works.
fn live(server: &Server, id: usize) -> Client {
    let mut main = server.client();
    assert_eq!(main.get(&format!("/open/{id}")).unwrap().text(), id.to_string());
    let mut poll = server.client();
    poll.send(format!("GET /poll/{id} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    eventually("the poll has come", || {
        (main.get(&format!("/send/{id}")).unwrap().text() == "sent").then_some(())
    });
    assert_eq!(poll.reply("GET").unwrap().text(), format!("polled {id}"));
    let upgrade = [("Connection", "Upgrade"), ("Upgrade", "x")];
    assert_eq!(main.request("GET", &format!("/ws/{id}"), &upgrade, b"").unwrap().status, 101);
    main.stream.get_mut().write_all(b"echo").unwrap();
    let mut echo = [0; 4];
    main.stream.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"echo");
    main
}

#[test]
fn overlapping_requests_never_start_a_second_process() {
    let dir = sessions("");
    let server = Server::start(dir.path(), &["--max-pool-size", "6"]);
    let pids = server.pids();
    let server = &server;
    let kept: Vec<Client> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..CLIENTS).map(|id| scope.spawn(move || live(server, id))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let status = server.status();
    assert_eq!(
        (&status["active"], status["groups"][0]["processes"][0]["sessions"].as_u64()),
        (&1.into(), Some(30))
    );
    assert_eq!((server.pids(), server.children().len()), (pids, 1));
    drop(kept);
}

#[test]
fn requests_that_wait_for_the_first_process_start_no_second_one() {
    // The process starts slowly, so that all requests wait for it.
    let dir = sessions("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);");
    let server = Server::start(dir.path(), &["--max-pool-size", "6"]);
    let first = server.get("/pid");
    let ask_all = || {
        let mut waiting: Vec<Client> = (0..CLIENTS).map(|_| server.client()).collect();
        for client in &mut waiting {
            client.send(b"GET /pid HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        }
        let mut pids: Vec<String> =
            waiting.iter_mut().map(|client| client.reply("GET").unwrap().text()).collect();
        pids.dedup();
        pids
    };
    assert_eq!(ask_all(), std::slice::from_ref(&first));
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    // The command does not wait for the pool's next look at the file. Requests before it reach the old process.
    let old: u32 = first.parse().unwrap();
    eventually("the old process leaves", || (!server.pids().contains(&old)).then_some(()));
    let after = ask_all();
    assert_eq!(after.len(), 1, "{after:?}");
    assert_ne!(after[0], first);
    assert_eq!(server.pids().len(), 1);
    eventually("only one process", || (server.children().len() == 1).then_some(()));
}

#[test]
fn an_application_sees_the_address_of_its_client_and_no_forged_one() {
    let dir = node("http.createServer((q, s) => s.end(String(q.socket.remoteAddress))).listen(0);");
    let server = Server::start(dir.path(), &["--trusted-proxies", "none"]);
    assert_eq!(server.get("/"), "127.0.0.1");
    let forged = [("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.1")];
    assert_eq!(server.client().request("GET", "/", &forged, b"").unwrap().text(), "127.0.0.1");
}

#[test]
fn an_application_leaves_in_its_own_way() {
    for handler in ["PhusionPassenger.on('exit'", "process.on('message'", "process.on('SIGTERM'"] {
        let dir = node(&format!(
            "const server = http.createServer((q, s) => s.end('ok')).listen(0);\n\
             setInterval(() => {{}}, 1000);\n\
             {handler}, () => server.close(() => setTimeout(() => {{\n\
               console.log('said goodbye'); process.exit(0); }}, 50)));"
        ));
        let mut server = Server::start(dir.path(), &[]);
        assert_eq!(server.get("/"), "ok");
        server.signal(Signal::TERM);
        assert!(server.ended().success());
        server.logs("said goodbye");
        assert!(!server.log().contains("unexpectedly"), "{}", server.log());
    }
}

#[test]
fn a_busy_process_writes_its_stack_before_it_ends() {
    let dir = node(
        "function spin() { for (;;); }\n\
         http.createServer((q, s) => q.url === '/spin' ? spin() : s.end(String(process.pid))).listen(0);",
    );
    let server = Server::start(dir.path(), &["--max-request-time", "1"]);
    let first = server.get("/");
    let reply = server.client().get("/spin").unwrap();
    assert_eq!(reply.status, 504);
    server.logs("at spin (");
    // Until the process has left the pool, a request may still get it.
    eventually("another process answers", || {
        let reply = server.client().get("/").unwrap();
        (reply.status == 200 && reply.text() != first).then_some(())
    });
}

#[test]
fn a_process_that_was_asked_to_leave_may_end_itself_by_sigterm() {
    let dir = node(
        "process.on('SIGTERM', () => { process.removeAllListeners('SIGTERM'); \
         process.kill(process.pid, 'SIGTERM') });\n\
         http.createServer((q, s) => s.end('ok')).listen(0);",
    );
    let server = Server::start(dir.path(), &["--log-level", "debug"]);
    let pid = server.pids()[0];
    let out = run(server.runtime.path(), &["detach", &pid.to_string()]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    server.logs(&format!("App {pid} has exited: signal: 15"));
    assert!(!server.log().contains("unexpectedly"));
}

#[test]
fn the_script_start_names_the_startup_file_which_may_be_a_module() {
    // The generators of Express write an `app.js` that does not listen, and a script that starts another file.
    let dir = app("app.js", "throw new Error('not this file');");
    let package =
        r#"{"type": "module", "main": "app.js", "scripts": {"start": "node ./bin/serve"}}"#;
    std::fs::write(dir.path().join("package.json"), package).unwrap();
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    std::fs::write(
        dir.path().join("bin/serve.js"),
        "import { createServer } from 'node:http';\n\
         const text = await Promise.resolve('from a module');\n\
         createServer((q, s) => s.end(text)).listen(process.env.PORT ?? 3000);\n",
    )
    .unwrap();
    assert_eq!(Server::start(dir.path(), &[]).get("/"), "from a module");
}

/// The request is on its way when the application destroys its connection, and is not safe to repeat unless the loader says so.
#[test]
fn a_request_that_meets_the_end_of_its_connection_is_sent_again() {
    let dir = node(
        "http.createServer((q, s) => {\n\
           s.end(q.method);\n\
           if (q.method === 'POST') return;\n\
           for (const until = Date.now() + 100; Date.now() < until;);\n\
           q.socket.destroy(); }).listen(0);",
    );
    let server = Server::start(dir.path(), &["--threads", "1", "--max-pool-size", "1"]);
    let mut client = server.client();
    for _ in 0..3 {
        assert_eq!(client.request("GET", "/", &[], b"").unwrap().text(), "GET");
        let reply = client.request("POST", "/", &[], b"body").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "POST"));
    }
}

#[test]
fn a_socket_whose_upgrade_was_refused_carries_no_further_request() {
    // Node has detached its parser from the socket: further bytes would reach the handler below.
    let dir = node(
        "const server = http.createServer((q, s) => s.end('answer ' + q.url)).listen(0);\n\
         server.on('upgrade', (q, socket) => {\n\
           socket.on('data', (d) => console.log('STRAY ' + d));\n\
           socket.on('error', () => {});\n\
           socket.write('HTTP/1.1 403 No\\r\\nContent-Length: 4\\r\\n\\r\\nnope'); });",
    );
    let server = Server::start(dir.path(), &["--threads", "1"]);
    for turn in 0..3 {
        let upgrade = [("Connection", "Upgrade"), ("Upgrade", "x")];
        let reply = server.client().request("GET", "/", &upgrade, b"").unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (403, "nope"));
        let path = format!("/{turn}");
        let cookie = [("Cookie", "secret")];
        let reply = server.client().request("GET", &path, &cookie, b"").unwrap();
        assert_eq!(reply.text(), format!("answer {path}"));
    }
    assert!(!server.log().contains("STRAY"), "{}", server.log());
}
