//! A thread that serves connections makes no call to the file system: one that hangs would stop all its clients.
//!
//! `strace` shows the calls. Where it may not trace, the test says so and ends.

use crate::server::{Server, Signal, eventually, signal, wsgi};
use std::path::Path;
use std::process::{Command, Stdio};

/// The threads that serve connections, as `strace` names them.
fn cores(server: &Server) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    let paths = threads.map(|thread| thread.unwrap().path());
    let is_core = |path: &Path| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("core "))
    };
    let names = paths.filter(|path| is_core(path));
    names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn no_thread_that_serves_connections_calls_the_file_system() {
    let dir = wsgi(
        "import signal",
        "if path == '/die': os.kill(os.getpid(), signal.SIGKILL)\n\
         if path == '/upload': return answer(len(environ['wsgi.input'].read()))\n\
         return answer('x' * 3000000)",
    );
    let server = Server::start(dir.path(), &["--max-pool-size", "2", "--buffer-request", "1024"]);
    server.get("/");
    let cores = cores(&server);
    assert!(!cores.is_empty());
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("strace");
    let mut tracer = Command::new("strace")
        .args(["-f", "-e", "trace=%file,getdents64", "-o", file.to_str().unwrap(), "-p"])
        .arg(server.pid().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace is installed, or `cargo xtask test` leaves this test out");
    let traced = || std::fs::read_to_string(&file).unwrap_or_default();
    // A look at the restart file shows that the tracer has begun.
    let mut has_begun = false;
    for _ in 0..50 {
        server.get("/");
        has_begun = traced().contains("restart.txt");
        if has_begun || tracer.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    if !has_begun {
        let _ = tracer.kill();
        return println!("skipped: strace cannot trace the server");
    }

    // The body and the answer are larger than what is kept in memory; a process dies; another one is started.
    let upload = server.client().request("POST", "/upload", &[], &vec![b'x'; 1_000_000]).unwrap();
    assert_eq!(upload.text(), "1000000");
    let mut slow = server.client();
    slow.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let dead = server.pids();
    let mut dies = server.client();
    dies.send(b"GET /die HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    eventually("another process", || (server.pids() != dead).then_some(()));
    std::fs::create_dir_all(dir.path().join("tmp")).unwrap();
    std::fs::write(dir.path().join("tmp/restart.txt"), "").unwrap();
    assert_eq!(server.get("/").len(), 3_000_000);
    assert_eq!(slow.reply("GET").unwrap().body.len(), 3_000_000);

    signal(tracer.id(), Signal::INT);
    tracer.wait().unwrap();
    let text = traced();
    let of_core = |line: &&str| cores.iter().any(|core| line.split(' ').next() == Some(core));
    // The allocator of glibc reads this once, before it gives memory back. Signals and exits have lines, too.
    let is_call = |line: &&str| line.contains('(') && !line.contains("overcommit_memory");
    let calls: Vec<&str> = text.lines().filter(of_core).filter(is_call).collect();
    assert!(calls.is_empty(), "{calls:#?}");
}
