//! One process as the pool sees it: the pseudocode's `ProcessInfo`.

use super::table_keys::{GroupKey, ProcessInfos};
use crate::kernel::clock::Time;
use crate::kernel::collections::list::{Links, linked};

/// Where a process stands in its group, and whether it takes another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the group, with room for a session; ranked by sessions.
    Open(usize),
    /// In the group, with room for a session, but chosen last: it is marked for eviction (errata E18, E37).
    Marked,
    /// In the group, at the limit of its concurrency; ranked by sessions.
    Full(usize),
    /// In the group, but it takes no session: it is disabled.
    Disabled,
    /// Detached, with sessions open.
    Draining,
}

/// The bookkeeping of one process.
///
/// | state | `place` | `sessions` | in the group's lists | in `draining` |
/// |---|---|---|---|---|
/// | idle: its group is in `inactive_apps` | `Open` | 0 | yes | no |
/// | active | `Open`, `Full` | > 0 | yes | no |
/// | active, marked for eviction | `Marked`, `Full` | > 0 | yes | no |
/// | disabled | `Disabled` | any number | yes | no |
/// | detached, draining | `Draining` | > 0 | no | yes |
/// | gone | removed from the arena, `Entry::gone` is set | | | |
///
/// `E` is the entry: the part that leaves the lock. The bookkeeping does not look into it.
pub(crate) struct ProcessInfo<E> {
    pub(crate) entry: E,
    /// The group, whose record outlives its processes.
    pub(crate) group: GroupKey,
    pub(crate) start_time: Time,
    /// When a session was last closed, or when the process was attached (erratum E5).
    pub(crate) last_used: Time,
    /// When it became idle, by a count of processes that became idle.
    pub(crate) idle_rank: u64,
    pub(crate) sessions: usize,
    /// Closed sessions.
    pub(crate) processed: usize,
    /// How many sessions it takes at once.
    pub(crate) concurrency: Option<usize>,
    /// How many sessions it is given in all.
    pub(crate) max_requests: Option<usize>,
    /// The group's failures in a row before it was attached; absent once a session has proved it (`back_off.rs`).
    pub(crate) failures_before: Option<u32>,
    /// The group's generation when it was attached.
    pub(crate) generation: u64,
    pub(crate) place: Place,
    /// Whether it may be given sessions.
    pub(crate) enabled: bool,
    /// Whether it is the pool's `marked`.
    pub(crate) marked: bool,
    pub(crate) drain_deadline: Time,
    /// The pseudocode's `iterator`.
    pub(crate) in_group: Links<ProcessInfos>,
    pub(crate) by_age: Links<ProcessInfos>,
    /// In the pool's `draining`.
    pub(crate) leaving: Links<ProcessInfos>,
}

impl<E> ProcessInfo<E> {
    /// Returns whether it has been given its last session.
    pub(crate) fn is_exhausted(&self) -> bool {
        // Open sessions count: they will be processed, too (INV-MAX-REQUESTS).
        self.max_requests.is_some_and(|max| self.processed + self.sessions >= max)
    }
    /// Returns the place that its numbers ask for.
    pub(crate) fn right_place(&self) -> Place {
        if !self.enabled {
            // It is given no session (PROP-DISABLED).
            Place::Disabled
        } else if self.concurrency.is_some_and(|max| self.sessions >= max) {
            // Full processes are not chosen (INV-CONCURRENCY).
            Place::Full(self.sessions)
        } else if self.marked && self.sessions > 0 {
            // Idle, it is evicted by the end of the section. The eviction looks for it among the idle ones.
            Place::Marked
        } else {
            Place::Open(self.sessions)
        }
    }
    /// Whether it is idle: no session is open, and it may be given one. A disabled process is never idle, so it is
    /// neither chosen nor evicted (INV-DISABLED).
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.sessions == 0 && self.enabled
    }
    /// Whether it has left its group (erratum E8: PROP-DETACHED-STATED).
    pub(crate) fn is_detached(&self) -> bool {
        self.place == Place::Draining
    }
}

linked!(
    /// `Group::processes`: by sessions.
    InGroup: ProcessInfos, ProcessInfo<E: Sized>, in_group
);
linked!(
    /// `Group::by_age`, oldest first, and `Group::draining`.
    ByAge: ProcessInfos, ProcessInfo<E: Sized>, by_age
);
linked!(
    /// `draining`.
    Leaving: ProcessInfos, ProcessInfo<E: Sized>, leaving
);
