//! The server under test: the binary that Cargo has built for these tests, started by the harness.
//!
//! Each failure of the harness is one of the test, which panics.

pub(crate) use cabrank_checks_harness::Signal;
pub(crate) use cabrank_checks_harness::binary::through;
pub(crate) use cabrank_checks_harness::processes::{command_line, is_alive, signal};
pub(crate) use cabrank_checks_harness::samples::{app, example, node, wsgi, wsgi_text};

use crate::needs;
use cabrank_checks_harness::{Binary, Client, processes, server, wait};
use serde_json::Value;
use std::io::PipeWriter;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A client that closes its connection so soon after its request may still wait for the answer. A client that
/// closes it later has left.
pub(crate) const HALF_CLOSE: Duration = Duration::from_millis(400);

/// Polls `ask` until it returns an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait::poll(LONG, ask).unwrap_or_else(|| panic!("expected within {LONG:?}: {what}"))
}

/// The variable that names another build of the binary to test, such as the optimised one.
pub(crate) const TESTED: &str = "CABRANK_TESTED";

fn binary() -> Binary {
    Binary::new(std::env::var_os(TESTED).unwrap_or_else(|| env!("CARGO_BIN_EXE_cabrank").into()))
}

/// Returns a command of the binary, with its own environment.
pub(crate) fn command(runtime: &Path, arguments: &[&str]) -> Command {
    binary().command(runtime, arguments)
}

/// Returns the command `cabrank start` on a free port.
pub(crate) fn start_command(runtime: &Path, dir: &Path, options: &[&str]) -> Command {
    binary().start_command(runtime, dir, options)
}

/// Returns a command that runs Python code, and then executes the command of a server.
pub(crate) fn after(code: &str, server: &Command) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", &format!("import os, sys\n{code}\nos.execv(sys.argv[1], sys.argv[1:])")]);
    through(python, server)
}

/// Runs a command to its end.
pub(crate) fn run(runtime: &Path, arguments: &[&str]) -> Output {
    binary().run(runtime, arguments).unwrap()
}

/// Returns the children of a process, except a server's reaper.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let children = processes::children(&processes::all(), parent).into_iter();
    children.filter(|&pid| !command_line(pid).contains("__reaper")).collect()
}

/// A running server. Dropping it ends the server.
pub(crate) struct Server(server::Server);

impl Deref for Server {
    type Target = server::Server;

    fn deref(&self) -> &server::Server {
        &self.0
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut server::Server {
        &mut self.0
    }
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
    pub(crate) fn start_with(command: Command, runtime: TempDir) -> Server {
        let started = server::Server::start_with(&binary(), command, runtime);
        let server = started.unwrap_or_else(|why| panic!("{why}{}", needs::remedy(&why)));
        needs::assert_listed(&server.log());
        Server(server)
    }

    /// Starts a server that logs to `stderr`, which the test may leave unread.
    #[track_caller]
    pub(crate) fn start_logging_to(stderr: PipeWriter, dir: &Path, options: &[&str]) -> Server {
        let runtime = tempfile::tempdir().unwrap();
        let mut command = start_command(runtime.path(), dir, options);
        command.stderr(stderr);
        let started = server::Server::start_unread(&binary(), command, runtime);
        Server(started.unwrap_or_else(|why| panic!("{why}")))
    }

    pub(crate) fn client(&self) -> Client {
        self.0.client().unwrap()
    }
    /// Sends a GET over a new connection.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> String {
        self.0.get(path).unwrap_or_else(|why| panic!("{why}"))
    }
    /// Waits until the log contains `part`.
    #[track_caller]
    pub(crate) fn logs(&self, part: &str) {
        eventually(&format!("{part:?} in the log"), || self.log().contains(part).then_some(()));
    }
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.0.status().unwrap_or_else(|why| panic!("{why}"))
    }
    /// Returns the pids of the processes in the pool.
    #[track_caller]
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.0.pids().unwrap_or_else(|why| panic!("{why}"))
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
        processes::resident_memory(self.pid())
    }
}
