//! The state behind the lock: the pseudocode's instance variables, and how they change.
//!
//! The pseudocode's `mutate_…` functions notify condition variables whenever a number falls. Here a number
//! only changes. Every section ends with [`State::settle`], which grants processes and capacity to the waiters that
//! can now proceed (errata E17, E20).

use super::effects::{Effect, Effects};
use super::ending::Ending;
use super::entry::Entry;
use super::group::{BackingOff, BySurplus, Group, Unused, Wanting};
use super::inactive_apps::InactiveApps;
use super::look::{LastSeen, Look};
use super::looks::Looking;
use super::process_info::{Leaving, ProcessInfo};
use super::standing::Standing;
use super::table_keys::{GroupKey, Groups, ProcessInfos, ProcessKey};
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::{Identifier, Spawner};
use crate::application_pool::api::totals::Totals;
use crate::kernel::alarm::Alarm;
use crate::kernel::clock::{Clock, Span, Time};
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::IndexedHeap;
use crate::kernel::collections::list::List;
use crate::kernel::collections::rank_list::RankList;
use crate::kernel::collections::touched::TouchedArena;
use crate::kernel::collections::wait_queue::{Queue, WaiterKey, Waiters, Wake};
use crate::kernel::sync::Arc;
use foldhash::HashMap;
use std::path::Path;
use std::time::Duration;

/// How a wait ended.
pub(crate) enum Outcome<S: Spawner> {
    /// With a session of this process, counted already.
    Serve(Arc<Entry<S>>),
    /// A spawn failed, and the group has no process.
    SpawnFailed(SpawnError),
    /// Its time in the queue has ended.
    QueuedTooLong,
    /// The restart files were looked at.
    Looked(std::sync::Arc<Look>),
    /// The pool is closed. If the caller waited for an [`End`] of the pool, that end has come.
    Closed,
}

/// An end of a closed pool, which callers wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No spawn is in flight, and no newcomer that found no room is being shut down.
    OfSpawns,
    /// No session, process or spawn is left.
    OfEverything,
}

/// Settings that never change.
pub(crate) struct Limits {
    pub(crate) drain_timeout: Duration,
    pub(crate) back_off: (Duration, Duration),
    /// For how long an unused group is remembered; absent: until it is detached by name.
    pub(crate) forget_groups_after: Option<Duration>,
}

/// The bookkeeping of a process, with its entry.
pub(crate) type Info<S> = ProcessInfo<Arc<Entry<S>>>;

pub(crate) struct State<S: Spawner> {
    pub(crate) clock: Clock,
    pub(crate) limits: Limits,

    /// The pseudocode's instance variables.
    pub(crate) groups: TouchedArena<Group, Groups>,
    /// A limit of the pool has changed, or a time has come: the groups that want capacity may be served.
    pub(crate) pool_touched: bool,
    /// Groups that this section has settled, and whose use it has not noted yet.
    pub(crate) settled: Vec<GroupKey>,
    pub(crate) group_by_name: HashMap<std::sync::Arc<str>, GroupKey>,
    pub(crate) max: usize,
    pub(crate) max_per_app: Option<usize>,
    pub(crate) count: usize,
    pub(crate) active: usize,
    pub(crate) inactive_apps: InactiveApps,
    /// The pseudocode's `waiting_on_global_queue`: all gets that wait.
    pub(crate) waiting: usize,
    pub(crate) waiters: Waiters<Outcome<S>, GroupKey>,
    /// The pseudocode's `MAX_IDLE_TIME`.
    pub(crate) max_idle_time: Option<Span>,

    /// The looks at restart files in flight, by directory.
    pub(crate) looking: HashMap<std::sync::Arc<Path>, Looking>,

    pub(crate) processes: Arena<Info<S>, ProcessInfos>,
    pub(crate) by_identifier: HashMap<Identifier, ProcessKey>,
    pub(crate) next_identifier: u64,
    /// The spawns in flight, and whether the process of each has failed already.
    pub(crate) in_flight: HashMap<Identifier, bool>,

    /// Spawns in flight that will raise `count` (erratum E3).
    pub(crate) reserved: usize,
    /// Spawns in flight whose process takes the place of an old one (erratum E34).
    pub(crate) replacing: usize,
    /// Detached processes that still have sessions, in the order of their deadlines (erratum E13).
    pub(crate) draining: List<Leaving>,
    /// How many processes beyond `max` may live because some drain; absent: as many as `max` (erratum E25).
    pub(crate) max_draining: Option<usize>,

    /// The busy process marked for eviction, while a group is in `first` (errata E18, E37).
    pub(crate) marked: Option<ProcessKey>,
    /// How many groups stand in one of the following lines.
    pub(crate) in_lines: usize,
    /// Groups that wait for capacity, first come, first served; see [`Want`].
    pub(crate) first: List<Wanting>,
    /// In the order in which they were last served (INV-LAST-SERVED).
    pub(crate) more: List<Wanting>,
    pub(crate) minimum: List<Wanting>,
    pub(crate) replacements: List<Wanting>,
    pub(crate) capped: List<Wanting>,
    /// Groups with an enabled process, by how far they are above their minimum.
    pub(crate) by_surplus: RankList<BySurplus>,
    /// Counts the processes that became idle.
    pub(crate) became_idle: u64,
    /// Counts the back-offs.
    pub(crate) back_offs: u64,
    /// By the end of the back-off; those that end at one time, by the beginning.
    pub(crate) backing_off: IndexedHeap<(Time, u64), BackingOff>,

    /// With how many groups the tables are mostly empty (`forgetting.rs`).
    pub(crate) shrink_at: usize,
    /// Groups that are forgotten unless they are used again, by the time.
    pub(crate) unused: List<Unused>,

    pub(crate) closed: bool,
    /// Callers that wait for an end of the pool, by [`End`].
    pub(crate) ends: [Queue; 2],
    /// Number of processes that have left, and whose `shut_down` has not returned yet.
    pub(crate) disposing: usize,
    /// How many of them were never attached.
    pub(crate) discarding: usize,
    /// Until when the cleaner sleeps; absent: until it is woken.
    pub(crate) cleaner: Alarm,
    pub(crate) cleaner_runs: bool,
    pub(crate) totals: Totals,

    /// Upper bounds of `count + reserved` and of `live` after `max` was lowered.
    #[cfg(any(test, debug_assertions))]
    pub(crate) ceiling: usize,
    #[cfg(any(test, debug_assertions))]
    pub(crate) live_ceiling: usize,
}

impl<S: Spawner> State<S> {
    pub(crate) fn process(&self, key: ProcessKey) -> &Info<S> {
        &self.processes[key]
    }
    pub(crate) fn group(&self, key: GroupKey) -> &Group {
        &self.groups[key]
    }
    /// Returns the group, to change it. The end of the section settles it (`settle.rs`).
    #[inline]
    pub(crate) fn group_mut(&mut self, key: GroupKey) -> &mut Group {
        self.groups.touch(key)
    }

    pub(crate) fn mutate_active(&mut self, value: usize) {
        self.active = value;
    }
    pub(crate) fn mutate_count(&mut self, value: usize) {
        self.count = value;
    }
    /// Raising it wakes the waiters that can proceed (erratum E20: PROP-WORK-CONSERVING).
    pub(crate) fn mutate_max(&mut self, value: usize) {
        self.max = value;
        self.pool_touched = true;
    }
    /// The pseudocode has no such function (erratum E20).
    pub(crate) fn mutate_max_per_app(&mut self, value: Option<usize>) {
        self.max_per_app = value;
        // Under a lower limit, a group may have to leave its line.
        self.pool_touched = true;
        // A group that is still capped goes back to the end of this list.
        while let Some(group) = self.capped.front() {
            self.leave_want(group);
            self.group_mut(group);
        }
    }

    /// Returns how many processes live because of this pool, or soon will.
    pub(crate) fn live(&self) -> usize {
        self.count + self.reserved + self.replacing + self.draining.len()
    }
    pub(crate) fn live_limit(&self) -> usize {
        self.max.saturating_add(self.max_draining.unwrap_or(self.max))
    }

    /// Returns the group of these options. A new group takes `look` as the baseline of its restart file (erratum E23:
    /// PROP-RESTART-CAUSE).
    pub(crate) fn group_of(&mut self, options: &PoolOptions, look: Option<&Look>) -> GroupKey {
        let hint = self.groups.key_at(options.group_hint());
        if let Some(key) = hint.filter(|key| self.group(*key).options.same(options)) {
            return key;
        }
        self.find_group(options, look)
    }
    #[cold]
    fn find_group(&mut self, options: &PoolOptions, look: Option<&Look>) -> GroupKey {
        let key = match self.group_by_name.get(options.app_group_name()) {
            Some(&key) => {
                // Only the group's: each process keeps the options it was ordered with (PROP-OPTIONS).
                self.group_mut(key).options = options.clone();
                key
            }
            None => {
                let name: std::sync::Arc<str> = options.app_group_name().into();
                let mut group = Group::new(name.clone(), options.clone());
                // It may have been forgotten, and its code may have changed since.
                group.reloads_first = self.limits.forget_groups_after.is_some();
                if let Some(look) = look {
                    group.seen.insert(look.dir.clone(), LastSeen::new(look));
                }
                let capacity = self.groups.capacity();
                let key = self.groups.insert(group);
                if self.groups.capacity() > capacity {
                    self.groups_have_grown();
                }
                self.group_by_name.insert(name, key);
                key
            }
        };
        options.set_group_hint(key.index());
        key
    }

    /// Recomputes what depends on the group's numbers: its place in `inactive_apps` (INV-PROCESS-IDLE, INV-EVICTABLE),
    /// and its rank in `by_surplus`.
    // Always inlined: most sections settle one group, and a call costs a get and its close 4 %.
    #[inline(always)]
    pub(crate) fn refresh(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        let group = &self.groups[key];
        let idle = group.processes.longest_idle().map(|process| &self.processes[process]);
        let protected = !group.is_above_minimum();
        let standing = idle.map(|process| Standing { rank: process.idle_rank, protected });
        if standing != group.inactive.standing() {
            let idle_since = idle.filter(|_| !protected).map(|process| process.last_used);
            self.inactive_apps.set(self.groups.links(), key, standing);
            // A process may have lost the minimum's protection, and be due soon (erratum E40).
            if let (Some(time), Some(max_idle_time)) = (idle_since, self.max_idle_time) {
                self.is_due(time.plus_span(max_idle_time), fx);
            }
        }
        let group = &self.groups[key];

        let enabled = group.enabled();
        let surplus = (enabled > 0).then(|| enabled.saturating_sub(group.min_processes()));
        if surplus != group.surplus {
            self.rank_by_surplus(key, surplus);
        }
    }
    #[cold]
    fn rank_by_surplus(&mut self, key: GroupKey, surplus: Option<usize>) {
        let before = std::mem::replace(&mut self.groups.links()[key].surplus, surplus);
        if let Some(rank) = before {
            self.by_surplus.remove(self.groups.links(), key, rank);
        }
        if let Some(rank) = surplus {
            self.by_surplus.push_back(self.groups.links(), key, rank);
        }
    }

    /// Grants sessions to the gets that wait for this group, oldest first, while a process has room.
    pub(crate) fn global_queue_position_became_available(
        &mut self,
        key: GroupKey,
        fx: &mut Effects<S>,
    ) {
        while !self.group(key).queue.is_empty() {
            let Some(process) = self.group(key).processes.first_with_room() else { break };
            self.was_served(key);
            let entry = self.open_session(process, fx);
            let wake = self.resolve_front(key, Outcome::Serve(entry));
            fx.push(Effect::Wake(wake));
        }
    }

    /// Ends the wait of all gets of this group with the same outcome.
    pub(crate) fn resolve_all(
        &mut self,
        key: GroupKey,
        outcome: impl Fn() -> Outcome<S>,
        fx: &mut Effects<S>,
    ) {
        while !self.group(key).queue.is_empty() {
            let wake = self.resolve_front(key, outcome());
            fx.push(Effect::Wake(wake));
        }
    }

    /// Ends the wait of a get whose time in the queue has ended.
    pub(crate) fn end_queue_time(
        &mut self,
        group: GroupKey,
        waiter: WaiterKey,
        fx: &mut Effects<S>,
    ) {
        self.waiting -= 1;
        let queue = &mut self.groups.touch(group).queue;
        let wake = self.waiters.resolve_early(queue, waiter, Outcome::QueuedTooLong);
        fx.push(Effect::Wake(wake));
    }

    /// Takes a get out of the queue and out of the count (erratum E16: INV-WAITING).
    fn resolve_front(&mut self, key: GroupKey, outcome: Outcome<S>) -> Wake {
        self.waiting -= 1;
        self.waiters.resolve_front(&mut self.groups.touch(key).queue, outcome)
    }

    /// Notes that the process has just become idle. The one used last comes last in `inactive_apps`
    /// (INV-INACTIVE-ORDER).
    #[inline]
    pub(crate) fn becomes_idle(&mut self, key: ProcessKey) {
        self.became_idle += 1;
        self.processes[key].idle_rank = self.became_idle;
    }

    pub(crate) fn new_identifier(&mut self) -> Identifier {
        self.next_identifier += 1;
        Identifier(self.next_identifier)
    }

    /// Wakes the cleaner if it would sleep past `time`, when something is due (PROP-IDLE-BOUND).
    pub(crate) fn is_due(&mut self, time: Time, fx: &mut Effects<S>) {
        if self.cleaner_runs && self.cleaner.ring_by(time) {
            fx.push(Effect::WakeCleaner);
        }
    }

    /// Ends every critical section.
    #[inline]
    pub(crate) fn end_section(&mut self, fx: &mut Effects<S>) {
        self.settle(fx);
        self.disposing += fx.disposals;
        self.discarding += fx.discards;
        debug_assert!(self.wakes_cleaner_in_time(), "PROP-IDLE-BOUND: the cleaner sleeps too long");
        #[cfg(any(test, debug_assertions))]
        self.lower_ceilings();
    }

    /// A get gives up. A session that it was granted meanwhile passes on to the next in line.
    pub(crate) fn leave_queue(&mut self, group: GroupKey, waiter: WaiterKey, fx: &mut Effects<S>) {
        // Only a get that waits is in its group's queue. One with an outcome changes no group by leaving, and its group may be
        // forgotten.
        let mut none = Queue::default();
        let queue = match self.groups.contains(group) {
            true => &mut self.groups.links()[group].queue,
            false => &mut none,
        };
        let (outcome, waker) = self.waiters.cancel(queue, waiter);
        if let Some(waker) = waker {
            fx.push(Effect::DropWaker(waker));
        }
        match outcome {
            None => {
                self.waiting -= 1;
                // It may have stood in line for this get alone.
                self.groups.touch(group);
            }
            Some(Outcome::Serve(entry)) => {
                self.end_session(&entry, Ending::Unused, fx);
                fx.push(Effect::DropEntry(entry));
            }
            Some(Outcome::SpawnFailed(error)) => fx.push(Effect::DropError(error)),
            Some(Outcome::Closed | Outcome::QueuedTooLong | Outcome::Looked(_)) => {}
        }
    }

    /// Whether a closed pool has come to this end.
    pub(crate) fn has_come(&self, end: End) -> bool {
        let spawns_ended = self.closed && self.reserved + self.replacing == 0;
        match end {
            // A newcomer belongs to its spawn until its `shut_down` has returned.
            End::OfSpawns => spawns_ended && self.discarding == 0,
            End::OfEverything => spawns_ended && self.draining.is_empty() && self.disposing == 0,
        }
    }
    /// Wakes the callers that wait for an end that has come, and the cleaner, which ends with the pool.
    pub(crate) fn notify_if_ended(&mut self, fx: &mut Effects<S>) {
        // Wake-ups run before the effects of this section that shut a process down. The section after these notifies.
        for (end, ahead) in [(End::OfSpawns, fx.discards), (End::OfEverything, fx.disposals)] {
            if ahead > 0 || !self.has_come(end) {
                return;
            }
            while !self.ends[end as usize].is_empty() {
                let wake =
                    self.waiters.resolve_front(&mut self.ends[end as usize], Outcome::Closed);
                fx.push(Effect::Wake(wake));
            }
        }
        fx.push(Effect::WakeCleaner);
    }
}
