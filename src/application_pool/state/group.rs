//! The processes of one application: the pseudocode's `Group`.
//!
//! The pseudocode's group exists while it has processes. Here its record outlives them, for three things
//! that must survive the last process:
//! - its waiters, which wait while the first process is spawned (erratum E4);
//! - its back-off (E26);
//! - its last look at the restart file (E22).

use super::look::LastSeen;
use super::process_info::{ByAge, InGroup, Place, ProcessInfo};
use super::standing::Inactive;
use super::table_keys::{Groups, ProcessInfos, ProcessKey};
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::{CancelToken, Identifier};
use crate::kernel::clock::Time;
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::{HeapIndex, in_heap};
use crate::kernel::collections::list::{Links, List, linked};
use crate::kernel::collections::rank_list::RankList;
use crate::kernel::collections::touched::{Note, Touch};
use crate::kernel::collections::wait_queue::Queue;
use foldhash::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The pseudocode's `processes`, in this order:
/// - idle processes (INV-GROUP-ORDER), most recently freed first;
/// - busy ones with room by their sessions, among equals least recently chosen or freed first;
/// - the one that is marked for eviction, if it has room;
/// - those without room, by their sessions;
/// - the disabled ones.
///
/// The pseudocode scans for the least busy process. Here it is the first with room, in O(1) (erratum E33).
#[derive(Debug, Default)]
pub(crate) struct Processes {
    open: RankList<InGroup>,
    marked: List<InGroup>,
    full: RankList<InGroup>,
    disabled: List<InGroup>,
}

/// Where a process goes among its equals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// The pseudocode's `move_to_front`: most recently freed first.
    Front,
    /// The pseudocode's `move_to_back`: most recently chosen last.
    Back,
}

impl Processes {
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.open.len() + self.full.len() + self.marked.len() + self.disabled.len()
    }
    pub(crate) fn num_disabled(&self) -> usize {
        self.disabled.len()
    }
    /// Returns the least busy process that takes a session. The marked one comes last: its group goes on being
    /// served, and it may become idle (erratum E37: PROP-SERVES-ON).
    #[inline]
    pub(crate) fn first_with_room(&self) -> Option<ProcessKey> {
        self.open.first().or_else(|| self.marked.front())
    }
    /// Returns the longest idle process. A process that becomes idle comes before all others ([`Edge::Front`]).
    #[inline]
    pub(crate) fn longest_idle(&self) -> Option<ProcessKey> {
        self.open.last_of(0)
    }
    /// Returns the process to mark for eviction: the one with the fewest sessions, with room if there is one.
    pub(crate) fn least_busy(&self) -> Option<ProcessKey> {
        self.first_with_room().or_else(|| self.full.first())
    }

    #[inline(always)] // A move is a `remove` and an `insert`: inlined, they look the process up once.
    pub(crate) fn insert<E>(
        &mut self,
        arena: &mut Arena<ProcessInfo<E>, ProcessInfos>,
        key: ProcessKey,
        end: Edge,
    ) {
        // A process is removed before its numbers change, and inserted by the new ones (INV-GROUP-SORTED).
        let place = arena[key].right_place();
        arena[key].place = place;
        let (ranked, rank) = match place {
            Place::Open(rank) => (&mut self.open, rank),
            Place::Full(rank) => (&mut self.full, rank),
            Place::Marked | Place::Draining => return self.marked.push_back(arena, key),
            Place::Disabled => return self.disabled.push_back(arena, key),
        };
        match end {
            Edge::Front => ranked.push_front(arena, key, rank),
            Edge::Back => ranked.push_back(arena, key, rank),
        }
    }
    #[inline(always)] // As above.
    pub(crate) fn remove<E>(
        &mut self,
        arena: &mut Arena<ProcessInfo<E>, ProcessInfos>,
        key: ProcessKey,
    ) {
        match arena[key].place {
            Place::Open(rank) => self.open.remove(arena, key, rank),
            Place::Full(rank) => self.full.remove(arena, key, rank),
            Place::Marked => self.marked.remove(arena, key),
            Place::Disabled => self.disabled.remove(arena, key),
            Place::Draining => unreachable!("a detached process is in no group's list"),
        }
    }

    /// Iterates over the idle processes, most recently freed first. For the invariants: not O(1).
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn idle<'a, E>(
        &'a self,
        arena: &'a Arena<ProcessInfo<E>, ProcessInfos>,
    ) -> impl Iterator<Item = ProcessKey> + 'a {
        self.open.iter(arena).take_while(|(rank, _)| *rank == 0).map(|(_, key)| key)
    }
    /// Iterates in the order of the pseudocode. For the invariants: not O(1).
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn iter<'a, E>(
        &'a self,
        arena: &'a Arena<ProcessInfo<E>, ProcessInfos>,
    ) -> impl Iterator<Item = ProcessKey> + 'a {
        let open = self.open.iter(arena).map(|(_, key)| key);
        let full = self.full.iter(arena).map(|(_, key)| key);
        open.chain(self.marked.iter(arena)).chain(full).chain(self.disabled.iter(arena))
    }
}

/// The spawn in flight for a group's current generation.
#[derive(Debug)]
pub(crate) struct Spawning {
    /// Names the spawn, and later its process.
    pub(crate) ticket: Identifier,
    pub(crate) cancel: CancelToken,
}

/// The want of a group that may not spawn at the moment. Each want is a list of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Want {
    /// It stands in no list.
    #[default]
    Nothing,
    /// Its first process, for gets that wait: other groups lose processes (errata E18, E29).
    First,
    /// One more process for gets that wait, when there is room.
    More,
    /// One more process up to the minimum, when there is room.
    Minimum,
    /// A process of the new generation beside those of the old (erratum E34).
    Replacement,
    /// One more process, but it has as many as `max_per_app` allows.
    Capped,
}

/// The bookkeeping of one group.
pub(crate) struct Group {
    pub(crate) name: Arc<str>,
    pub(crate) options: PoolOptions,
    pub(crate) processes: Processes,
    /// Attached processes, oldest first: in this order a restart replaces them.
    pub(crate) by_age: List<ByAge>,
    pub(crate) size: usize,
    pub(crate) idle: usize,
    /// Detached processes that still have sessions, in the order in which they were detached.
    pub(crate) draining: List<ByAge>,
    /// Gets that wait for one of its processes.
    pub(crate) queue: Queue,

    pub(crate) spawning: Option<Spawning>,
    /// Spawns in flight, including those that were given up: the record must outlive them.
    pub(crate) spawns_in_flight: usize,

    /// Counts restarts.
    pub(crate) generation: u64,
    /// Attached processes of older generations.
    pub(crate) outdated: usize,
    /// A restart has begun, and its first new process is not attached yet (erratum E22).
    pub(crate) reload_pending: bool,
    /// The last look at the restart file, for each directory that its gets name: two application roots may
    /// share a group.
    pub(crate) seen: HashMap<PathBuf, LastSeen>,

    /// Failed spawns in a row.
    pub(crate) failures: u32,
    pub(crate) back_off_until: Option<Time>,
    pub(crate) last_error: Option<SpawnError>,

    /// Its place in the pool's `inactive_apps`.
    pub(crate) inactive: Inactive,
    /// Its rank in the pool's `by_surplus`; absent: it is not in that list.
    pub(crate) surplus: Option<usize>,
    pub(crate) want: Want,
    /// For a group in `first`: when a busy process must make room for it (erratum E37). For one in `more`: when it
    /// starves.
    pub(crate) room_due: Time,
    /// `detach_group` was called: the record is removed as soon as it is unused.
    pub(crate) forgotten: bool,
    /// Its first spawn asks the spawner to reload.
    pub(crate) reloads_first: bool,
    /// For a group in `unused`: when it is forgotten.
    pub(crate) forget_at: Time,

    pub(crate) note: Note<Groups>,
    pub(crate) wanting: Links<Groups>,
    pub(crate) by_surplus: Links<Groups>,
    pub(crate) backing_off: HeapIndex,
    pub(crate) unused: Links<Groups>,
}

impl Group {
    pub(crate) fn new(name: Arc<str>, options: PoolOptions) -> Self {
        Group {
            name,
            options,
            processes: Processes::default(),
            by_age: List::default(),
            size: 0,
            idle: 0,
            draining: List::default(),
            queue: Queue::default(),
            spawning: None,
            spawns_in_flight: 0,
            generation: 0,
            outdated: 0,
            reload_pending: false,
            seen: HashMap::default(),
            failures: 0,
            back_off_until: None,
            last_error: None,
            inactive: Inactive::default(),
            surplus: None,
            want: Want::Nothing,
            room_due: Time::default(),
            forgotten: false,
            reloads_first: false,
            forget_at: Time::default(),
            note: Note::default(),
            wanting: Links::default(),
            by_surplus: Links::default(),
            backing_off: HeapIndex::default(),
            unused: Links::default(),
        }
    }
    pub(crate) fn min_processes(&self) -> usize {
        self.options.min_processes()
    }
    /// Returns how many processes may be given sessions.
    #[inline]
    pub(crate) fn enabled(&self) -> usize {
        self.size - self.processes.num_disabled()
    }
    /// Whether no process can serve its gets before the end of its back-off (erratum E27).
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.enabled() == 0 && self.spawning.is_none() && self.back_off_until.is_some()
    }
    #[inline]
    pub(crate) fn is_above_minimum(&self) -> bool {
        self.enabled() > self.min_processes()
    }
}

impl Touch<Groups> for Group {
    fn note(&mut self) -> &mut Note<Groups> {
        &mut self.note
    }
}

linked!(
    /// The pool's lists of groups that want something.
    Wanting: Groups, Group, wanting
);
linked!(
    /// `by_surplus`: groups with a process, by how far they are above their minimum.
    BySurplus: Groups, Group, by_surplus
);
linked!(
    /// The pool's `unused`.
    Unused: Groups, Group, unused
);
in_heap!(
    /// The heap `backing_off`: by the end of their back-off.
    BackingOff: Groups, Group, backing_off
);
