//! Why a command failed, and with which exit code.
//!
//! Every message names the thing and the remedy; the codes are part of the command line's contract
//! and stand in `cabrank --help`.

use std::fmt;
use std::process::ExitCode;

/// The exit codes, as `--help` lists them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done; for `start`: shut down in good order
  1  something else went wrong, or a second signal ended the agent at once
  2  wrong usage: an unknown option, a bad value on the command line or in cabrank.toml
  3  not found: no directory, no application in it, no running instance
  4  the address cannot be listened on
  5  the application did not boot";

/// The kinds of failure; the numbers are the exit codes.
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
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(Kind::Usage, message)
    }
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::new(Kind::NotFound, message)
    }
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
