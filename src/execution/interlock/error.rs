//! The errors of a begin and of a request.

use super::caller::OwnerId;
use super::dump::Dump;
use std::error::Error;
use std::fmt;
use std::panic::Location;

/// The error of a call that did not get what it waited for. The execution goes on.
///
/// It prints as one line. Its [source](Error::source) prints as the dump.
///
/// ```
/// use cabrank::Interlock;
/// use cabrank::execution::interlock::AcquireError;
///
/// let interlock = Interlock::new();
/// let refused = interlock.run(|_| interlock.unload(|_| ()))?.unwrap_err();
/// assert!(matches!(refused, AcquireError::Deadlock(_)));
/// assert_eq!(refused.blocked().dump.owners.len(), 1); // the execution that would wait for itself
/// # Ok::<(), AcquireError>(())
/// ```
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
        let Blocked { victim, at, why, dump } = self.blocked();
        match self {
            AcquireError::TimedOut(_) => {
                write!(f, "timed out at {at}: ")?;
                dump.write_wait(*victim, f)
            }
            AcquireError::Deadlock(_) => write!(f, "deadlock at {at}: {why}"),
        }
    }
}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.blocked())
    }
}

/// A blocked execution, and all executions at that moment. It prints as the [`Dump`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Blocked {
    /// The execution that was blocked.
    pub victim: OwnerId,
    /// Where in the source the call stands.
    pub at: &'static Location<'static>,
    /// Why the call would never have ended. Empty if it has timed out.
    pub why: &'static str,
    /// All executions as they were when the call failed.
    pub dump: Dump,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dump.fmt(f)
    }
}

impl Error for Blocked {}
