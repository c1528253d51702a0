//! Peers of Unix sockets that send descriptors (`SCM_RIGHTS`). The close of such a descriptor may last for as long as its sender
//! likes, and would hold up a thread of the server. The server lets its sockets take none, as Linux can since 6.16.

use crate::server::{Server, app, run, wsgi};
use cabrank_checks_harness::http::scgi_head;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// The attack, as a module of Python: `send` sends bytes with a TCP socket whose close waits for a peer that never reads. It
/// says whether the kernel refused that.
const ATTACK: &str = r#"
import array, queue, socket, threading

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listener.bind(("127.0.0.1", 0))
listener.listen(1000)

def lingering():
    sender = socket.create_connection(listener.getsockname())
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, array.array("i", [1, 100000]).tobytes())
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 65536)
    except BlockingIOError:
        return sender

def send(connection, data):
    outcome = queue.Queue()
    def hit():
        sender = lingering()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))
        try:
            connection.sendmsg([data], [rights])
            outcome.put("sent")
        except PermissionError:
            outcome.put("refused")
        sender.close() # waits for ever if this is the last descriptor
    threading.Thread(target=hit, daemon=True).start()
    return outcome.get()
"#;

/// Returns whether the kernel lets a socket refuse descriptors. If it does not, the test says so, and is left out.
fn can_refuse() -> bool {
    let ask = "import errno, socket, sys\n\
               try: socket.socketpair()[0].setsockopt(socket.SOL_SOCKET, 83, 0)\n\
               except OSError as e: sys.exit(3 if e.errno == errno.ENOPROTOOPT else 4)";
    match Command::new("python3").args(["-c", ask]).status().unwrap().code() {
        Some(0) => true,
        Some(3) => {
            println!("skipped: this kernel lacks SO_PASSRIGHTS, which Linux has since 6.16");
            false
        }
        other => panic!("SO_PASSRIGHTS: {other:?}"),
    }
}

/// Asserts that each of more attacks than the server has threads is refused.
#[track_caller]
fn all_refused(answers: &[String]) {
    assert!(answers.len() >= 8 && answers.iter().all(|answer| answer == "refused"), "{answers:?}");
}

/// Asserts that the server serves, answers the tools, and stops.
#[track_caller]
fn is_well(mut server: Server, path: &str) {
    for _ in 0..8 {
        server.get(path);
    }
    server.status();
    let out = run(server.runtime.path(), &["stop"]);
    assert!(out.status.success(), "{out:?}");
    assert!(server.ended().success());
}

/// A client that sends one request with a descriptor over each of many connections, and keeps them.
const CLIENT: &str = r#"
import attack, socket, sys

request, kept = eval(sys.stdin.readline()), []
for _ in range(8):
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].connect(sys.argv[1])
    print(attack.send(kept[-1], request), flush=True)
sys.stdin.read()
"#;

/// A process of Python that attacks, as the lines that it writes. Dropping it ends it.
struct Attacker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Attacker {
    /// Runs `code` with an argument. The first line of its input has these bytes.
    fn play(place: &Path, code: &str, argument: &Path, bytes: &[u8]) -> Attacker {
        fs::write(place.join("attack.py"), ATTACK).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", code]).arg(argument).current_dir(place);
        let mut child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let line = format!("b\"{}\"\n", bytes.escape_ascii());
        child.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Attacker { child, lines }
    }
}

impl Iterator for Attacker {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.lines.next().map(Result::unwrap)
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Clients over each Unix socket of a server.
fn a_client_sends_descriptors(name: &str, request: &[u8]) {
    if !can_refuse() {
        return;
    }
    let (dir, place) = (wsgi("", "return answer('served')"), tempfile::tempdir().unwrap());
    let at = |name: &str| place.path().join(name);
    let [http, scgi] = [at("http"), at("scgi")].map(|path| path.to_str().unwrap().to_owned());
    let server =
        Server::start(dir.path(), &["--socket", &http, "--scgi-socket", &scgi, "--threads", "2"]);
    let tools = fs::read_dir(server.runtime.path()).unwrap().next().unwrap().unwrap().path();
    let socket = if name == "admin" { tools.join(name) } else { at(name) };
    let mut attacker = Attacker::play(place.path(), CLIENT, &socket, request);
    let answers: Vec<_> = attacker.by_ref().take(8).collect();
    all_refused(&answers);
    is_well(server, "/");
}

#[test]
fn a_client_of_a_socket_that_sends_descriptors_holds_no_thread_up() {
    a_client_sends_descriptors("http", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn a_client_over_scgi_that_sends_descriptors_holds_no_thread_up() {
    let head = [("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/"), ("HTTP_HOST", "a")];
    a_client_sends_descriptors("scgi", &scgi_head(0, head));
}

#[test]
fn a_client_of_the_tools_socket_that_sends_descriptors_holds_no_thread_up() {
    a_client_sends_descriptors("admin", b"\"status\"\n");
}

/// A process that the tools take for a server, and that sends a descriptor with its answer.
const IMPOSTOR: &str = r#"
import attack, fcntl, os, socket, sys

path = f"{sys.argv[1]}/cabrank.{os.getpid()}.impostor"
os.mkdir(path, 0o700)
fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path + "/admin")
listener.listen()
print("listens", flush=True)
while True:
    connection = listener.accept()[0]
    connection.recv(4096)
    answer = b'{"done":"an answer"}\n'
    outcome = attack.send(connection, answer)
    if outcome != "sent":
        connection.sendall(answer)
    print(outcome, flush=True)
"#;

#[test]
fn a_server_that_sends_descriptors_holds_no_tool_up() {
    if !can_refuse() {
        return;
    }
    let (runtime, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut said = Attacker::play(place.path(), IMPOSTOR, runtime.path(), b"");
    assert_eq!(said.next().unwrap(), "listens");
    let out = run(runtime.path(), &["stop"]);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "an answer\n", "{out:?}");
    assert_eq!(said.next().unwrap(), "refused");
}

/// A program with HTTP of its own, whose answers to `/attack` carry a descriptor.
const PROGRAM: &str = r#"
import attack, os, socket, threading

def serve(connection):
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                return
            data += more
        head, data = data.split(b"\r\n\r\n", 1)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
        outcome = b"served"
        if head.startswith(b"GET /attack"):
            outcome = attack.send(connection, answer % (4, b"sent")).encode()
            if outcome == b"sent":
                continue
        connection.sendall(answer % (len(outcome), outcome))

listener = socket.socket(socket.AF_UNIX)
listener.bind(os.environ["SOCKET"])
listener.listen()
while True:
    threading.Thread(target=serve, args=[listener.accept()[0]], daemon=True).start()
"#;

#[test]
fn a_program_that_sends_descriptors_holds_no_thread_up() {
    if !can_refuse() {
        return;
    }
    let dir = app("program.py", PROGRAM);
    fs::write(dir.path().join("attack.py"), ATTACK).unwrap();
    let command = "SOCKET=$SOCKET exec python3 program.py";
    let server = Server::start(dir.path(), &["--start-command", command, "--threads", "2"]);
    let answers: Vec<_> = (0..8).map(|_| server.get("/attack")).collect();
    all_refused(&answers);
    is_well(server, "/");
}

/// Returns an application whose requests for `/attack` send descriptors over its standard output, which is a Unix socket.
fn through_the_output() -> TempDir {
    let dir = wsgi(
        "import attack, socket",
        "if environ['PATH_INFO'] != '/attack': return answer('served')\n\
         return answer(attack.send(socket.socket(fileno=os.dup(1)), b'a line\\n'))",
    );
    fs::write(dir.path().join("attack.py"), ATTACK).unwrap();
    dir
}

#[test]
fn an_application_whose_output_carries_descriptors_holds_no_thread_up() {
    if !can_refuse() {
        return;
    }
    let dir = through_the_output();
    for method in ["direct", "smart"] {
        let server = Server::start(dir.path(), &["--threads", "2", "--spawn-method", method]);
        let answers: Vec<_> = (0..8).map(|_| server.get("/attack")).collect();
        all_refused(&answers);
        is_well(server, "/");
    }
}
