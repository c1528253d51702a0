//! The errors of a begin and of a request.

use super::dump::Dump;
use super::owner_id::OwnerId;
use std::error::Error;
use std::fmt;
use std::panic::Location;

/// The error of a call that did not get what it waited for. The execution goes on.
///
/// It prints as one line. Its [source](Error::source) prints as the dump.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// The time limit of the wait has passed.
    TimedOut(Box<Blocked>),
    /// The wait would never have ended: the call would have waited for the execution that it is in.
    Deadlock(Box<Blocked>),
}

impl AcquireError {
    /// Returns which execution was blocked, and by which others.
    pub fn blocked(&self) -> &Blocked {
        match self {
            AcquireError::TimedOut(blocked) | AcquireError::Deadlock(blocked) => blocked,
        }
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, Blocked { victim, why, at, dump }) = match self {
            AcquireError::TimedOut(blocked) => ("timed out", &**blocked),
            AcquireError::Deadlock(blocked) => ("deadlock", &**blocked),
        };
        write!(f, "{what} at {at}: ")?;
        match self {
            AcquireError::TimedOut(_) => dump.write_wait(*victim, f),
            AcquireError::Deadlock(_) => f.write_str(why),
        }
    }
}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.blocked())
    }
}

/// A blocked execution, and all executions at that moment. It prints as the [`Dump`].
#[derive(Clone, Debug)]
pub struct Blocked {
    victim: OwnerId,
    why: &'static str,
    at: &'static Location<'static>,
    dump: Dump,
}

impl Blocked {
    pub(super) fn new(
        victim: OwnerId,
        why: &'static str,
        at: &'static Location<'static>,
        dump: Dump,
    ) -> Self {
        Blocked { victim, why, at, dump }
    }
    /// Returns the execution that was blocked.
    pub fn victim(&self) -> OwnerId {
        self.victim
    }
    /// Returns where in the source the call stands.
    pub fn location(&self) -> &'static Location<'static> {
        self.at
    }
    /// Returns all executions as they were when the call failed.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dump.fmt(f)
    }
}

impl Error for Blocked {}
