//! One process as the pool sees it: the pseudocode's `ProcessInfo`.

use super::inner::Inner;
use super::spawner::{Identifier, Spawner};
use crate::clock::Time;
use crate::collections::slab_list::{Key, Links, linked};
use crate::sync::{Arc, Flag};
use crate::user_code::UserValue;

/// The part that leaves the lock: the process itself, and the way back into the pool.
///
/// The pool holds it strongly for as long as the process is in its data, a [`Lease`](super::Lease)
/// while somebody connects, a [`Session`](super::Session) weakly.
pub(crate) struct Entry<S: Spawner> {
    pub(crate) process: UserValue<S::Process>,
    pub(crate) identifier: Identifier,
    pub(crate) pid: Option<u32>,
    /// Where the `ProcessInfo` is, as long as `gone` is false.
    pub(crate) key: Key,
    /// The pseudocode's unlocked look at `detached` (erratum E15). Since a detached process with open
    /// sessions is still counted while it drains (E13), what can be seen without the lock is that it
    /// has left the pool's data for good. Set under the lock, never unset.
    ///
    /// # Synchronization
    /// Relaxed: who sees it set returns and touches nothing that the setter wrote, and who does not
    /// see it takes the lock and looks again, ordered by the lock. There is no weaker ordering.
    pub(crate) gone: Flag,
    /// A cycle with the pool's own reference to this entry, broken when the process leaves the pool;
    /// that every process leaves is what closing the pool sees to.
    pub(crate) pool: std::sync::Arc<Inner<S>>,
}

/// Where an attached process stands in its group, and whether it takes another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the group, with room for a session; ranked by sessions.
    Open(usize),
    /// In the group, at the limit of its concurrency; ranked by sessions.
    Full(usize),
    /// In the group, but takes no session any more: it has been given its last one, or it is to make
    /// room for a group that has no process (erratum E18).
    Retiring,
    /// Detached, with sessions open.
    Draining,
}

/// The bookkeeping of one process.
///
/// | state | `place` | `sessions` | in the group's lists | in `inactive_apps` | in `draining` |
/// |---|---|---|---|---|---|
/// | idle | `Open` | 0 | yes | yes | no |
/// | active | `Open`, `Full` | > 0 | yes | no | no |
/// | retiring | `Retiring` | > 0 | yes | no | no |
/// | detached, draining | `Draining` | > 0 | no | no | yes |
/// | gone | removed from the slab, `Entry::gone` is set | | | | |
pub(crate) struct ProcessInfo<S: Spawner> {
    pub(crate) entry: Arc<Entry<S>>,
    /// The group, whose record outlives its processes.
    pub(crate) group: Key,
    pub(crate) start_time: Time,
    /// When a session was last closed, or else the start (erratum E5).
    pub(crate) last_used: Time,
    pub(crate) sessions: usize,
    /// Sessions that were closed.
    pub(crate) processed: usize,
    /// How many sessions it takes at once; 0: any number.
    pub(crate) concurrency: usize,
    /// How many sessions it is given in all; 0: any number.
    pub(crate) max_requests: usize,
    /// Which of the group's restarts it belongs to.
    pub(crate) generation: u64,
    pub(crate) place: Place,
    /// Chosen to make room for a starving group (erratum E18).
    pub(crate) condemned: bool,
    pub(crate) drain_deadline: Time,
    /// The pseudocode's `iterator`.
    pub(crate) in_group: Links,
    pub(crate) by_age: Links,
    /// The pseudocode's `ia_iterator`.
    pub(crate) inactive: Links,
    /// In the pool's `condemned` or `draining`; never both.
    pub(crate) leaving: Links,
}

impl<S: Spawner> ProcessInfo<S> {
    /// Where it belongs, by its numbers.
    pub(crate) fn right_place(&self) -> Place {
        // What is open counts, too: it is not given more than it will have processed (INV-MAX-REQUESTS).
        let exhausted =
            self.max_requests > 0 && self.processed + self.sessions >= self.max_requests;
        if exhausted || self.condemned {
            Place::Retiring
        } else if self.concurrency > 0 && self.sessions >= self.concurrency {
            // Nobody chooses from these (INV-CONCURRENCY).
            Place::Full(self.sessions)
        } else {
            Place::Open(self.sessions)
        }
    }
    /// Whether it is not found in the pool any more (erratum E8: PROP-DETACHED-STATED).
    pub(crate) fn is_detached(&self) -> bool {
        self.place == Place::Draining
    }
}

linked!(
    /// `Group::processes`: by sessions.
    InGroup, ProcessInfo<S: Spawner>, in_group
);
linked!(
    /// `Group::by_age`: oldest first.
    ByAge, ProcessInfo<S: Spawner>, by_age
);
linked!(
    /// `inactive_apps`: least recently used first.
    Inactive, ProcessInfo<S: Spawner>, inactive
);
linked!(
    /// `condemned` and `draining`.
    Leaving, ProcessInfo<S: Spawner>, leaving
);
