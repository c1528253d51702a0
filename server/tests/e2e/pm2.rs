//! Applications of Node as under pm2: their number, their signals, and an error where they cannot be served.

use crate::server::{Server, Signal, app, eventually, node, run, signal};
use crate::wrong_input::fails;
use std::fs;

/// A process of the pool, and its number.
fn numbers(server: &Server) -> Vec<(u32, String)> {
    let number = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let text = String::from_utf8_lossy(&environment).into_owned();
        let value = text.split('\0').find_map(|pair| pair.strip_prefix("NODE_APP_INSTANCE="))?;
        Some((pid, value.to_owned()))
    };
    let mut numbers: Vec<_> = server.pids().into_iter().filter_map(number).collect();
    numbers.sort_by(|a, b| a.1.cmp(&b.1));
    numbers
}

#[test]
fn each_living_process_has_another_instance_number_and_a_later_one_gets_it_again() {
    let dir = node("http.createServer((q, s) => s.end(process.env.NODE_APP_INSTANCE)).listen(0);");
    let server = Server::start(dir.path(), &["--min-instances", "3", "-e", "production"]);
    let three = |without: u32| {
        eventually("three processes", || {
            let numbers = numbers(&server);
            let is_there = numbers.iter().any(|(pid, _)| *pid == without);
            (numbers.len() == 3 && !is_there).then_some(numbers)
        })
    };
    let first = three(0);
    let names = |all: &[(u32, String)]| -> Vec<String> {
        all.iter().map(|(_, name)| name.clone()).collect()
    };
    assert_eq!(names(&first), ["0", "1", "2"]);
    assert!(names(&first).contains(&server.get("/")));
    signal(first[1].0, Signal::KILL);
    let second = three(first[1].0);
    assert_eq!((names(&second), &second[0], &second[2]), (names(&first), &first[0], &first[2]));
}

#[test]
fn a_handler_of_sigint_cleans_up_at_a_restart_and_at_a_stop() {
    let dir = node(
        "const server = http.createServer((q, s) => s.end('ok')).listen(3000);\n\
         setInterval(() => {}, 1000);\n\
         process.on('SIGINT', () => server.close(() => setTimeout(() => {\n\
           console.log(`process ${process.pid} said goodbye`); process.exit(0); }, 50)));",
    );
    let mut server = Server::start(dir.path(), &[]);
    let first = server.pids()[0];
    assert!(run(server.runtime.path(), &["restart"]).status.success());
    assert_eq!(server.get("/"), "ok");
    server.logs(&format!("process {first} said goodbye"));
    let second =
        eventually("another process", || server.pids().into_iter().find(|&pid| pid != first));
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    server.logs(&format!("process {second} said goodbye"));
    assert!(!server.log().contains("unexpectedly"), "{}", server.log());
}

/// The time to start is 90 s. The error of the test would be a time limit.
#[test]
fn an_application_that_listens_elsewhere_is_refused_at_once() {
    for (source, part) in [
        ("require('https').createServer({}).listen(3000);", "with a server for HTTPS"),
        ("require('cluster').fork();\nsetInterval(() => {}, 1000);", "calls cluster.fork()"),
    ] {
        let dir = app("app.js", source);
        fails(dir.path(), &[], 5, &[part]);
    }
}
