//! Kept sessions between the server and the WSGI loader.

use crate::server::{Server, Signal, eventually, signal, wsgi};
use std::fs;

/// Returns the names of the sockets of all processes.
fn sockets(server: &Server) -> Vec<String> {
    let instance = fs::read_dir(server.runtime.path())
        .unwrap()
        .map(|entry| entry.unwrap().path().join("generation-0/backends"))
        .find(|backends| backends.is_dir())
        .unwrap();
    let entries = fs::read_dir(instance).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Asserts that there is one socket, for kept sessions with this process.
#[track_caller]
fn assert_socket_of(server: &Server, pid: u32) {
    let sockets = sockets(server);
    assert!(sockets.len() == 1 && sockets[0].starts_with(&format!("kept.{pid}-")), "{sockets:?}");
}

#[test]
fn a_process_is_reached_by_kept_sessions_and_leaves_no_socket_behind() {
    let dir = wsgi("", "return answer(os.getpid())");
    let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
    let first: u32 = server.get("/").parse().unwrap();
    assert_socket_of(&server, first);
    signal(first, Signal::KILL);
    let second = eventually("another process", || {
        let reply = server.client().get("/").ok().filter(|reply| reply.status == 200)?;
        reply.text().parse().ok().filter(|pid| *pid != first)
    });
    eventually("its socket alone", || (sockets(&server).len() == 1).then_some(()));
    assert_socket_of(&server, second);
}

#[test]
fn a_process_is_busy_until_the_application_has_cleaned_up() {
    let dir = wsgi(
        "class Body:\n\
         \x20   def __init__(self, path): self.path = path\n\
         \x20   def __iter__(self): yield b'answer'\n\
         \x20   def close(self):\n\
         \x20       while not os.path.exists(self.path): time.sleep(0.01)\n\
         \x20       os.remove(self.path)",
        "if path == '/other': return answer('other')\n\
         start_response('200 OK', [('Content-Length', '6')])\n\
         return Body(os.path.join(os.path.dirname(__file__), 'go'))",
    );
    let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
    let sessions = || server.status()["groups"][0]["processes"][0]["sessions"].as_u64();
    let mut client = server.client();
    assert_eq!(client.get("/").unwrap().text(), "answer");
    assert_eq!(sessions(), Some(1));
    let mut other = server.client();
    other.send(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    // The client has its answer and leaves, and the process is still busy.
    drop(client);
    fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(other.reply("GET").unwrap().text(), "other");
    assert!(!dir.path().join("go").exists());
    eventually("the sessions end", || (sessions() == Some(0)).then_some(()));
}

#[test]
fn an_application_whose_client_has_left_runs_into_an_error() {
    let dir = wsgi(
        "def endless(start_response):\n\
         \x20   try:\n\
         \x20       while True: yield b'x' * 1000\n\
         \x20   finally: print('closed', flush=True)",
        "if path == '/other': return answer('other')\n\
         start_response('200 OK', [])\n\
         return endless(start_response)",
    );
    let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
    let mut client = server.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    client.head().unwrap();
    drop(client);
    assert_eq!(server.get("/other"), "other");
    server.logs("closed");
}

/// A client that sees the end of its answer may ask again before the application says that it has finished.
#[test]
fn a_request_that_comes_after_another_one_waits_a_moment_before_a_second_process_starts() {
    let dir = wsgi(
        "class Body:\n\
         \x20   def __init__(self, path): self.path = path\n\
         \x20   def __iter__(self): yield b'answer'\n\
         \x20   def close(self):\n\
         \x20       while not os.path.exists(self.path): time.sleep(0.01)",
        "if path == '/other': return answer('other')\n\
         start_response('200 OK', [('Content-Length', '6')])\n\
         return Body(os.path.join(os.path.dirname(__file__), 'go'))",
    );
    let server = Server::start(dir.path(), &["--log-level", "debug"]);
    let mut client = server.client();
    assert_eq!(client.get("/").unwrap().text(), "answer");
    drop(client);
    let mut other = server.client();
    other.send(b"GET /other HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    server.logs("a request waits for the end of an answer");
    fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(other.reply("GET").unwrap().text(), "other");
}
