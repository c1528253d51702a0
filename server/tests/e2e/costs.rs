//! The exact costs of a request in the steady state: system calls and allocations.
//!
//! `strace` counts the system calls, and a preloaded library counts the allocations. Where `strace` may not trace, or
//! there is no C compiler, the test says so and ends.

use crate::server::{Server, Signal, TESTED, eventually, node, signal, start_command, wsgi};
use cabrank_checks_harness::{Client, Load};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Counts the system calls of a process under load. `None`: `strace` cannot.
fn count(server: &Server, out: &TempDir) -> Option<HashMap<String, f64>> {
    let file = out.path().join("strace");
    let mut tracer = Command::new("strace")
        .args(["-f", "-c", "-U", "name,calls", "-o", file.to_str()?, "-p"])
        .arg(server.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is installed, or `cargo xtask test` leaves this test out");
    std::thread::sleep(Duration::from_millis(1500));
    signal(tracer.id(), Signal::INT);
    let end = tracer.wait().ok()?;
    let text = std::fs::read_to_string(file).ok().filter(|text| text.contains("epoll_wait"));
    let text = text.or_else(|| {
        println!("skipped: strace cannot trace the server ({end})");
        None
    })?;
    let calls = text.lines().filter_map(|line| {
        let (name, calls) = line.trim().split_once(char::is_whitespace)?;
        Some((name.to_owned(), calls.trim().parse().ok()?))
    });
    Some(calls.collect())
}

/// System calls a request.
struct Calls {
    /// The calls that move bytes, or that begin or end a connection. Their number does not depend on other load.
    work: f64,
    /// The same, with waits and wake-ups.
    all: f64,
}

fn system_calls(dir: &TempDir) -> Option<Calls> {
    // With one thread the number does not depend on how the kernel shares the work.
    let options = ["--max-pool-size", "2", "--min-instances", "2", "--threads", "1"];
    let server = Server::start(dir.path(), &options);
    eventually("two processes", || (server.pids().len() == 2).then_some(()));
    let load = Load::start(server.address, "/", 16);
    std::thread::sleep(Duration::from_millis(500));
    let calls = count(&server, &tempfile::tempdir().unwrap());
    let seen = load.stop();
    assert!(seen.failed.is_empty(), "{:?}", seen.failed);
    let calls = calls?;
    let of = |names: &[&str]| names.iter().filter_map(|name| calls.get(*name)).sum::<f64>();
    // Each request takes one write to the client and one to the process.
    let sent = of(&["sendto", "sendmsg", "writev"]);
    let requests = sent / 2.0;
    assert!(requests > 100.0, "{calls:?}");
    let work = sent
        + of(&["recvfrom", "recvmsg", "readv"])
        + of(&["epoll_ctl", "connect", "socket", "close", "accept4", "shutdown"]);
    let all = work + of(&["read", "write", "epoll_wait", "epoll_pwait"]);
    println!("{:.2} system calls a request: {calls:?}", all / requests);
    Some(Calls { work: work / requests, all: all / requests })
}

#[test]
fn a_request_takes_few_system_calls() {
    let wsgi = wsgi("", "return answer('hello')");
    let node = node("http.createServer((q, s) => s.end('hello')).listen(0);");
    for (dir, most) in [(wsgi, 6.0), (node, 5.0)] {
        // On a busy machine fewer events come together, and each takes a wait. So the least of a few counts decides.
        let mut least = Calls { work: f64::MAX, all: f64::MAX };
        for _ in 0..5 {
            let Some(calls) = system_calls(&dir) else { return };
            least = Calls { work: calls.work.min(least.work), all: calls.all.min(least.all) };
            if least.work <= 4.2 && least.all <= most {
                break;
            }
        }
        let Calls { work, all } = least;
        assert!(work <= 4.2, "{work:.2} system calls a request move bytes; at most 4 are wanted");
        assert!(all <= most, "{all:.2} system calls a request; at most {most} are wanted");
    }
}

/// Compiles the library that counts. `None`: there is no compiler.
fn counter(dir: &TempDir) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/count_allocations.c");
    let library = dir.path().join("count.so");
    let mut compile = Command::new("cc");
    compile.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let end = compile.status().ok().filter(|end| end.success());
    if end.is_none() {
        println!("skipped: there is no C compiler, or it cannot make the library");
    }
    end.map(|_| library)
}

fn counted(file: &Path) -> u64 {
    let bytes = std::fs::read(file).unwrap();
    u64::from_ne_bytes(bytes.try_into().unwrap())
}

#[test]
fn a_request_takes_few_allocations() {
    const REQUESTS: u64 = 2000;
    let tools = tempfile::tempdir().unwrap();
    let Some(library) = counter(&tools) else { return };
    let file = tools.path().join("count");
    let wsgi = wsgi("", "return answer('hello')");
    let node = node("http.createServer((q, s) => s.end('hello')).listen(0);");
    for dir in [wsgi, node] {
        std::fs::write(&file, [0; 8]).unwrap();
        let runtime = tempfile::tempdir().unwrap();
        // Each look at the restart files has a thread, which allocates by the second and not by the request.
        let mut command =
            start_command(runtime.path(), dir.path(), &["--stat-throttle-rate", "3600"]);
        command.env("LD_PRELOAD", &library).env("COUNT_ALLOCATIONS", &file);
        let server = Server::start_with(command, runtime);
        let mut client: Client = server.client();
        let ask = |client: &mut Client| assert_eq!(client.get("/").unwrap().text(), "hello");
        (0..50).for_each(|_| ask(&mut client));
        let before = counted(&file);
        assert!(before > 0, "the library was not loaded");
        (0..REQUESTS).for_each(|_| ask(&mut client));
        let each = (counted(&file) - before) as f64 / REQUESTS as f64;
        println!("{each:.2} allocations a request");
        // In builds with debug assertions the pool checks its invariants, which takes 10 allocations a request.
        let is_own = std::env::var_os(TESTED).is_none();
        let most = if is_own && cfg!(debug_assertions) { 14.0 } else { 4.0 };
        assert!(each <= most, "{each:.2} allocations a request; at most {most} are wanted");
    }
}

#[test]
fn an_idle_connection_takes_little_memory() {
    const CONNECTIONS: u64 = 400;
    let dir = wsgi("", "return answer('hello')");
    let server = Server::start(dir.path(), &["--max-request-queue-size", "0"]);
    let opened = || -> Vec<Client> {
        (0..CONNECTIONS)
            .map(|_| {
                let mut client = server.client();
                assert_eq!(client.get("/").unwrap().text(), "hello");
                client
            })
            .collect()
    };
    let first = opened(); // tables grow, and buffers are made that later ones use again
    let before = server.memory();
    let second = opened();
    let each = server.memory().saturating_sub(before) / CONNECTIONS;
    println!("{each} bytes an idle connection");
    assert!(each <= 2048, "{each} bytes an idle connection; at most 2048 are wanted");
    drop((first, second));
}
