//! A running server, and small applications that it serves.

use crate::http::Client;
use crate::needs;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, PipeWriter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A client that closes its connection so soon after its request may still wait for the answer. A client that
/// closes it later has left.
pub(crate) const HALF_CLOSE: Duration = Duration::from_millis(400);

/// Polls `ask` until it returns an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "expected within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// Writes an application into a temporary directory.
pub(crate) fn app(file: &str, text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tmp")).unwrap();
    fs::write(dir.path().join(file), text).unwrap();
    dir
}

/// Writes a WSGI application. `body` is the body of `application(environ, start_response)`, and `head` runs
/// when the application is loaded.
pub(crate) fn wsgi(head: &str, body: &str) -> TempDir {
    app("passenger_wsgi.py", &wsgi_text(head, body))
}

pub(crate) fn wsgi_text(head: &str, body: &str) -> String {
    let body = body.replace('\n', "\n    ");
    format!(
        "import os, sys, time\n{head}\n\ndef application(environ, start_response):\n    \
         path = environ['PATH_INFO']\n    def answer(text, status='200 OK'):\n        \
         start_response(status, [('Content-Type', 'text/plain')])\n        \
         return [str(text).encode()]\n    {body}\n"
    )
}

pub(crate) fn node(body: &str) -> TempDir {
    app("app.js", &format!("const http = require('http');\n{body}\n"))
}

/// Returns a command of the binary, with its own environment.
pub(crate) fn command(runtime: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cabrank"));
    // The tools look for servers in both directories, and must find only those of this test.
    command.args(arguments).env("XDG_RUNTIME_DIR", runtime).env("TMPDIR", runtime);
    // Python's cache of compiled files compares times by the second, and a test may write a file twice in one.
    command.stdin(Stdio::null()).env("PYTHONDONTWRITEBYTECODE", "1");
    let is_read = |name: &str| {
        name.starts_with("CABRANK_")
            || ["PASSENGER_APP_ENV", "RAILS_ENV", "RACK_ENV", "WSGI_ENV", "NODE_ENV"]
                .contains(&name)
    };
    for (name, _) in std::env::vars().filter(|(name, _)| is_read(name)) {
        command.env_remove(name);
    }
    command
}

/// Returns the command `cabrank start` on a free port.
pub(crate) fn start_command(runtime: &Path, dir: &Path, options: &[&str]) -> Command {
    let mut command = command(runtime, &["start", dir.to_str().unwrap(), "--port", "0"]);
    command.args(options);
    command
}

/// Runs a command to its end.
pub(crate) fn run(runtime: &Path, arguments: &[&str]) -> Output {
    command(runtime, arguments).output().unwrap()
}

/// A running server. Dropping it ends the server.
pub(crate) struct Server {
    child: Child,
    pub(crate) runtime: TempDir,
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<String>>,
}

impl Server {
    /// Starts a server and waits until it serves.
    #[track_caller]
    pub(crate) fn start(dir: &Path, options: &[&str]) -> Server {
        let runtime = tempfile::tempdir().unwrap();
        let command = start_command(runtime.path(), dir, options);
        Server::start_with(command, runtime)
    }

    /// Starts a server by `command` and waits until it serves.
    #[track_caller]
    pub(crate) fn start_with(mut command: Command, runtime: TempDir) -> Server {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, kept) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut kept = kept.lock().unwrap();
                kept.push_str(&line);
                kept.push('\n');
            }
        });
        // From here on, dropping the server ends the child.
        let mut server = Server { child, runtime, address: ([0, 0, 0, 0], 0).into(), log };
        server.address = eventually("the server serves", || {
            let log = server.log();
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "the server exited:\n{log}{}", needs::remedy(&log));
            let (_, rest) = log.split_once(" at http://")?;
            rest.split(|c: char| c.is_whitespace() || c == '"').next()?.parse().ok()
        });
        needs::assert_listed(&server.log());
        server
    }

    /// Starts a server that logs to `stderr`, which the test may leave unread. `status` gives its address.
    #[track_caller]
    pub(crate) fn start_logging_to(stderr: PipeWriter, dir: &Path, options: &[&str]) -> Server {
        let runtime = tempfile::tempdir().unwrap();
        let child = start_command(runtime.path(), dir, options).stderr(stderr).spawn().unwrap();
        let address = ([0, 0, 0, 0], 0).into();
        let mut server = Server { child, runtime, address, log: Arc::default() };
        server.address = eventually("the server serves", || {
            assert!(server.child.try_wait().unwrap().is_none(), "the server exited");
            let out = run(server.runtime.path(), &["status", "--json"]);
            let status: Value = serde_json::from_slice(&out.stdout).ok()?;
            status["address"].as_str()?.parse().ok()
        });
        server
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }
    /// Sends a GET over a new connection.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> String {
        let reply = self.client().get(path).unwrap();
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.text()
    }
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }
    /// Waits until the log contains `part`.
    #[track_caller]
    pub(crate) fn logs(&self, part: &str) {
        eventually(&format!("{part:?} in the log"), || self.log().contains(part).then_some(()));
    }
    pub(crate) fn status(&self) -> Value {
        let out = run(self.runtime.path(), &["status", "--json"]);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }
    /// Returns the pids of the processes in the pool.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let status = self.status();
        let processes = status["groups"][0]["processes"].as_array().cloned().unwrap_or_default();
        processes.iter().map(|p| p["pid"].as_u64().unwrap() as u32).collect()
    }
    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
    /// Waits until the server exits.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> ExitStatus {
        eventually("the server exits", || self.has_ended())
    }
    /// Returns every process whose parent is the server.
    pub(crate) fn children(&self) -> Vec<u32> {
        children_of(self.pid())
    }
    /// Returns the server's resident memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(self.pid(), "TERM");
            let deadline = Instant::now() + Duration::from_secs(10);
            while self.child.try_wait().unwrap().is_none() {
                if Instant::now() > deadline {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
        }
    }
}

pub(crate) fn signal(pid: u32, name: &str) {
    // An error means that the process is gone, which the caller will notice.
    let _ =
        Command::new("kill").args(["-s", name, &pid.to_string()]).stderr(Stdio::null()).status();
}

/// Returns whether the process is alive and not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z")
}

fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

pub(crate) fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Returns the children of a process, except a server's reaper.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|&pid| stat(pid).is_some_and(|(_, p)| p == parent))
        .filter(|&pid| !command_line(pid).contains("__reaper"))
        .collect()
}
