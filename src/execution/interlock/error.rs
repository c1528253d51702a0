//! The errors of a begin or a request to hold.

use super::dump::{Dump, Picture};
use super::state::State;
use super::vitals::OwnerId;
use crate::collections::slab_list::Key;
use std::error::Error;
use std::fmt;

/// The error of a request. The owner keeps what it had before.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// The wait would never have ended. Either an owner keeps its share and waits for a child, which, itself
    /// or by a child of its own, waits to hold. Or the wait is for an execution that this very thread is in.
    Deadlock(Box<Deadlock>),
    /// A child may not unload while its parent lives: the parent has a share, and waits for it.
    Child,
    /// The execution has another share in the same frame, or is inside an exclusive section or a permit block
    /// that forbids the call.
    ///
    /// A handle that borrows from the other share would live across the call.
    ///
    /// A begin fails so where it would wait for itself: inside a section of this thread, or of a concurrent
    /// borrower of the enclosing execution.
    Nested,
    /// The deadline passed first.
    TimedOut,
    /// A `try_` method would have had to wait.
    WouldBlock,
    /// The execution was [forfeited](super::Interlock::forfeit).
    Forfeited,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Deadlock(deadlock) => deadlock.fmt(f),
            AcquireError::Child => f.write_str(
                "a child may not unload while its parent lives: the parent waits for it",
            ),
            AcquireError::Nested => f.write_str(
                "another share, a section or a permit block of the execution forbids this",
            ),
            AcquireError::TimedOut => f.write_str("timed out: other executions were in the way"),
            AcquireError::WouldBlock => f.write_str("it would have to wait for other executions"),
            AcquireError::Forfeited => f.write_str("the execution was forfeited"),
        }
    }
}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AcquireError::Deadlock(deadlock) => Some(deadlock),
            _ => None,
        }
    }
}

/// The error of [`get_or_load`](super::Loaded::get_or_load).
#[derive(Debug)]
pub enum LoadError<E> {
    /// The load could not begin.
    Acquire(AcquireError),
    /// Loading failed. The next caller tries again.
    Load(E),
}

impl<E> From<AcquireError> for LoadError<E> {
    fn from(error: AcquireError) -> Self {
        LoadError::Acquire(error)
    }
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Acquire(error) => error.fmt(f),
            LoadError::Load(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for LoadError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LoadError::Acquire(error) => Some(error),
            LoadError::Load(error) => Some(error),
        }
    }
}

/// A deadlock: a circle of owners, each of which waits for the next. The owner that completes it gets this
/// error.
#[derive(Clone, Debug)]
pub struct Deadlock {
    picture: Picture,
    victim: OwnerId,
}

impl Deadlock {
    /// Returns the error for an owner that has just completed a circle. `stuck`: executions that its thread
    /// is in, too.
    pub(super) fn of(state: &State, victim: Key, stuck: &[OwnerId]) -> AcquireError {
        let victim = state.owner(victim).id();
        let picture = Picture::of(state).with_stuck(stuck, victim);
        AcquireError::Deadlock(Box::new(Deadlock { picture, victim }))
    }
    /// Returns the circle, beginning with the owner that got the error.
    pub fn cycle(&self) -> Vec<OwnerId> {
        self.dump().cycle_from(self.victim).unwrap_or_default()
    }
    /// Returns all owners as they were when the circle was completed.
    pub fn dump(&self) -> Dump {
        self.picture.clone().develop()
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dump = self.dump();
        let cycle = dump.cycle_from(self.victim).unwrap_or_default();
        f.write_str("deadlock")?;
        for (at, owner) in cycle.iter().filter_map(|id| dump.owner(*id)).enumerate() {
            let before = if at == 0 { ": " } else { "; " };
            write!(f, "{before}{} {}", owner.title(), owner.does)?;
        }
        Ok(())
    }
}

impl Error for Deadlock {}
