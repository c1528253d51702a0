//! Work for a client that has left, in the protocols of other loaders: `session`, and `http_session` of a process
//! that takes one request at a time.
//!
//! The start-up file is a loader of its own. It serves each connection by a thread, so that a session that comes
//! too early shows in its answer as a second one in progress.

use crate::server::{HALF_CLOSE, Server, app, eventually};
use cabrank_checks_harness::Client;
use std::fs;
use tempfile::TempDir;

const LOADER: &str = r#"
import os, socket, sys, threading, time
if 'AS_LOADER' not in os.environ:
    os.environ['AS_LOADER'] = '1'
    os.execl(sys.executable, sys.executable, os.path.abspath('passenger_wsgi.py'))

control = os.fdopen(os.dup(0), 'rb', 0)
os.write(1, b'\n!> I have control 1.0\n')
options = {}
for line in iter(control.readline, b'\n'):
    key, _, value = line.decode().strip().partition(': ')
    options[key] = value
path = os.path.join(options['generation_dir'], 'backends', f'test.{os.getpid()}')
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen(100)
os.write(1, f'!> Ready\n!> socket: main;unix:{path};PROTOCOL;1\n!> \n'.encode())

in_progress = 0
lock = threading.Lock()

def say(text):
    os.write(2, (text + '\n').encode())

def request(conn):
    """Return the path of the next request, or None at the end of the connection."""
    data = b''
    def more():
        nonlocal data
        piece = conn.recv(65536)
        data += piece
        return piece
    if 'PROTOCOL' == 'http_session':
        while b'\r\n\r\n' not in data:
            if not more(): return None
        return data.split(b' ')[1].decode()
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], 'big'):
        if not more(): return None
    words = data[4:4 + int.from_bytes(data[:4], 'big')].split(b'\0')
    return dict(zip(words[::2], words[1::2]))[b'PATH_INFO'].decode()

def answer(path, conn):
    global in_progress
    say(f'began {path}')
    if path == '/hold':
        while conn.recv(1): pass
        say('no more input')
        while not os.path.exists('go'): time.sleep(0.01)
    text = f'{path}: {in_progress} in progress'
    # The next session may come as soon as the answer is whole.
    with lock: in_progress -= 1
    status = 'HTTP/1.1 200 OK' if 'PROTOCOL' == 'http_session' else 'Status: 200 OK'
    length = 10 ** 9 if path == '/endless' else len(text)
    conn.sendall(f'{status}\r\nContent-Length: {length}\r\n\r\n{text}'.encode())
    while path == '/endless':
        conn.sendall(b'x' * 1000)

def serve(conn):
    global in_progress
    with conn:
        try:
            while path := request(conn):
                with lock: in_progress += 1
                answer(path, conn)
                if 'PROTOCOL' == 'session': return
        except (BrokenPipeError, ConnectionResetError):
            say('cut off')  # reset, where the server had not read all

def accept():
    while True:
        threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()

threading.Thread(target=accept, daemon=True).start()
control.read(1)
"#;

const PROTOCOLS: [&str; 2] = ["session", "http_session"];

fn speaking(protocol: &str) -> TempDir {
    app("passenger_wsgi.py", &LOADER.replace("PROTOCOL", protocol))
}

fn begin(server: &Server, path: &str) -> Client {
    let mut client = server.client();
    client.ask(path).unwrap();
    client
}

#[test]
fn a_process_takes_no_session_until_the_work_for_a_client_that_left_has_ended() {
    for protocol in PROTOCOLS {
        let dir = speaking(protocol);
        let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
        let leaves = begin(&server, "/hold");
        server.logs("began /hold");
        std::thread::sleep(HALF_CLOSE);
        drop(leaves);
        server.logs("no more input");
        let mut waits = begin(&server, "/other");
        eventually("a request in the queue", || {
            (server.status()["requests_in_queue"] == 1).then_some(())
        });
        assert_eq!(server.status()["active"], 1, "{protocol}");
        assert!(!server.log().contains("began /other"), "{protocol}");
        fs::write(dir.path().join("go"), "").unwrap();
        assert_eq!(waits.reply("GET").unwrap().text(), "/other: 1 in progress", "{protocol}");
        eventually("an idle process", || (server.status()["active"] == 0).then_some(()));
        assert_eq!(server.pids().len(), 1);
    }
}

#[test]
fn an_answer_without_end_is_cut_off_when_its_client_has_left() {
    for protocol in PROTOCOLS {
        let dir = speaking(protocol);
        let server = Server::start(dir.path(), &["--max-pool-size", "1"]);
        let mut leaves = begin(&server, "/endless");
        assert_eq!(leaves.head().unwrap().status, 200);
        drop(leaves);
        assert!(server.get("/other").starts_with("/other: "), "{protocol}");
        server.logs("cut off");
    }
}
