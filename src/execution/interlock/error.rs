//! Why an execution could not begin, or could not hold.

use super::dump::{Dump, Picture};
use super::state::State;
use super::vitals::OwnerId;
use crate::collections::slab_list::Key;
use std::error::Error;
use std::fmt;

/// Why an owner was not given what it asked for. It has what it had before.
#[derive(Debug)]
#[non_exhaustive]
pub enum AcquireError {
    /// This wait would never have ended: who keeps a share waits for a child, which waits to hold, or for
    /// one of its own that does; or it is an execution that this very thread is in, and goes on only when the
    /// wait has ended.
    Deadlock(Box<Deadlock>),
    /// An unload by a child of an execution that lives: its parent has a share, and waits for it.
    Child,
    /// Not by the innermost share alone: the execution has another share in the same frame, or is
    /// inside an exclusive section or a permit block that forbids it.
    ///
    /// A handle that borrows from the other share would live across what is asked for here.
    ///
    /// Of an execution that was to begin: inside a section of this thread, or beside one of the execution that
    /// the thread is in, it would wait for itself.
    Nested,
    /// The deadline passed first.
    TimedOut,
    /// A `try_` would have had to wait.
    WouldBlock,
    /// The execution was [forfeited](super::Interlock::forfeit).
    Forfeited,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::Deadlock(deadlock) => deadlock.fmt(f),
            AcquireError::Child => f.write_str(
                "a child of a live execution may not unload: its parent could not end before it",
            ),
            AcquireError::Nested => {
                f.write_str("the execution has another share here, or is where this is forbidden")
            }
            AcquireError::TimedOut => f.write_str("others ran until the deadline had passed"),
            AcquireError::WouldBlock => f.write_str("others run now"),
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

/// Why [`get_or_load`](super::Loaded::get_or_load) gave nothing.
#[derive(Debug)]
pub enum LoadError<E> {
    /// It could not load at all.
    Acquire(AcquireError),
    /// Loading failed. The next who needs it tries again.
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

/// A deadlock: each of the circle waits for the next, the last for the first. Whoever closes the circle is told
/// (where the original lets all of them wait for ever: its defect `rails-upgrade-deadlock`).
#[derive(Clone, Debug)]
pub struct Deadlock {
    picture: Picture,
    victim: OwnerId,
}

impl Deadlock {
    /// What this owner is told, who has just closed a circle. Looks at everybody, as a dump does.
    /// `stuck`: who goes no further as long as the victim waits, because one thread is in both.
    pub(super) fn of(state: &State, victim: Key, stuck: &[OwnerId]) -> AcquireError {
        let victim = state.owner(victim).id();
        let picture = Picture::of(state).with_stuck(stuck, victim);
        AcquireError::Deadlock(Box::new(Deadlock { picture, victim }))
    }
    /// The circle, from the owner that was told.
    pub fn cycle(&self) -> Vec<OwnerId> {
        self.dump().cycle_from(self.victim).unwrap_or_default()
    }
    /// Everybody, as they were when the circle closed.
    pub fn dump(&self) -> Dump {
        self.picture.clone().develop()
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dump = self.dump();
        let told = dump.cycle_from(self.victim).unwrap_or_default();
        f.write_str("deadlock")?;
        for (at, owner) in told.iter().filter_map(|id| dump.owner(*id)).enumerate() {
            let before = if at == 0 { ": " } else { "; " };
            write!(f, "{before}{} {}", owner.title(), owner.does)?;
        }
        Ok(())
    }
}

impl Error for Deadlock {}
