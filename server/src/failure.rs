//! The failure of a command: its message and its exit code.
//!
//! Every message names the file, option or process at fault and the remedy. The exit codes are part of
//! the command line's contract, and `cabrank --help` lists them.

use cabrank_spawner::ErrorKind;
use cabrank_spawner::chain::Chain;
use std::fmt;
use std::process::ExitCode;

/// The exit codes, as `--help` lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  success; for `start`: a graceful shutdown
  1  any other failure, or a second signal that ended the server at once
  2  wrong usage: an unknown option, or a bad value, wherever it stands
  3  not found: the directory, an application in it, or a running server
  4  the server cannot listen on the address
  5  the application did not boot: at `start`, or at `restart --wait`";

/// The kinds of failure. Their numbers are the exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Other = 1,
    Usage = 2,
    NotFound = 3,
    Address = 4,
    Boot = 5,
}

/// A failure of a command, ready to be shown.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into() }
    }
    pub(crate) fn other(message: impl Into<String>) -> Self {
        Failure::new(Kind::Other, message)
    }
    pub(crate) fn caused_by(error: &(dyn std::error::Error + 'static)) -> Self {
        Failure::other(Chain(error).to_string())
    }
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Kind::Usage, message)
    }
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::new(Kind::NotFound, message)
    }
    pub(crate) fn no_threads(e: std::io::Error) -> Self {
        let remedy = "Raise the limit on threads (`ulimit -u`).";
        Failure::other(format!("cannot start threads: {e}. {remedy}"))
    }
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

impl From<cabrank_spawner::Error> for Failure {
    fn from(error: cabrank_spawner::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Usage => Kind::Usage,
            ErrorKind::NotFound => Kind::NotFound,
            _ => Kind::Other,
        };
        Failure::new(kind, error.message())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
