//! The modes of an owner, and how each counts for the others.
//!
//! An owner is one execution. Its nested executions on the same thread, or in the same task, are further *views* of
//! the same owner: they share its share.

use super::caller::{OwnerId, Owners};
use crate::kernel::clock::Time;
use crate::kernel::collections::list::{Links, List, linked};
use crate::kernel::collections::wait_queue::Wake;
use std::backtrace::Backtrace;
use std::panic::Location;
use std::sync::Arc;
use std::thread::Thread;

/// The purpose of an exclusive section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// To load something. Waiting loads let each other go first.
    Load,
    /// To unload. Waits for loads and for the end of permit blocks.
    Unload,
}

/// The modes of an owner.
///
/// | mode | share | who may go before it |
/// |---|---|---|
/// | `Out` | no: its entry is free | |
/// | `Entering` | not yet | loads, unloads and draining owners |
/// | `Running` | yes | |
/// | `Yielded` | given up, in a permit block | loads and newcomers |
/// | `Waiting(p)` | given up, to hold for p | loads; unloads, too, if p is `Unload` |
/// | `Holding` | it alone | |
/// | `Draining(p)` | not yet again, after a hold for p | the same as for `Waiting(p)` |
/// | `Resuming` | not yet again | the holder |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Out,
    Entering,
    Running,
    Yielded,
    Waiting(Purpose),
    Holding,
    Draining(Purpose),
    /// A permit block has ended, or a wait was given up.
    Resuming,
}

impl Mode {
    /// Returns the number of the queue that an owner in this mode is in.
    pub(super) fn queue(self) -> Option<usize> {
        match self {
            Mode::Entering => Some(0),
            Mode::Resuming => Some(1),
            Mode::Waiting(purpose) => Some(2 + purpose as usize),
            Mode::Draining(purpose) => Some(4 + purpose as usize),
            Mode::Out | Mode::Running | Mode::Yielded | Mode::Holding => None,
        }
    }
}

/// The result of a transition that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Step {
    Done,
    /// The owner is queued, and waits.
    Wait,
}

/// Why a call would never end.
pub(super) type Why = &'static str;

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: OwnerId,
    pub(super) mode: Mode,
    /// The permit blocks that it is in. A counter, so that an inner block cannot erase an outer one's permission
    /// (in Rails it does: `rails-permit-erased`).
    pub(super) permits: u32,
    /// How many executions share this one's share. The last to end takes the owner out.
    pub(super) views: u32,
    /// It began inside a permit block of another owner, which waits for it.
    pub(super) inside: bool,
    /// The generation that its body sees. Empty while it lets others unload (INV-ILK-ONE-GENERATION).
    pub(super) sees: Option<u64>,
    /// The one call that waits for this owner, or has not picked up its grant. Another is a concurrent branch's.
    pub(super) waiter: Option<Box<Waiter>>,
    /// Absent for a task, which belongs to no thread. A free entry keeps the handle of its former owner, to use it
    /// again.
    pub(super) thread: Option<Thread>,
    /// Where and when it began.
    pub(super) at: &'static Location<'static>,
    pub(super) since: Time,
    pub(super) name: Option<Arc<str>>,
    pub(super) links: Links<Owners>,
}
linked!(/// The queue that an owner's mode names.
    InQueue: Owners, Owner, links);

pub(super) type Queue = List<InQueue>;

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) wake: Wake,
    pub(super) granted: bool,
    /// The time limit of a task has passed.
    pub(super) expired: bool,
    /// The end of a task's wait. A thread looks at its deadline itself.
    pub(super) deadline: Option<Time>,
    pub(super) at: &'static Location<'static>,
    pub(super) since: Time,
    /// With the feature `backtrace`.
    pub(super) backtrace: Option<Arc<Backtrace>>,
}
