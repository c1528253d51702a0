//! Capacity: which group may spawn next when the pool is full.
//!
//! A group that wants a process and may not spawn one waits in one of four lists (`Want`), first come, first
//! served. [`State::new_app_group_creatable`], named after the pseudocode's condition variable, serves
//! them whenever something may have changed.
//!
//! Groups without a process come first, so that each gets its turn. For each of them the pool evicts an idle
//! process of another group (erratum E29), or marks a busy one for eviction (E18).

use super::effects::{Effect, Effects};
use super::event::DetachReason;
use super::group::{End, Group, Want, Wanting};
use super::spawn_order::Kind;
use super::spawner::Spawner;
use super::state::{Outcome, State};
use crate::collections::slab_list::{Key, List};
use slab::Slab;

impl<S: Spawner> State<S> {
    /// The pseudocode's condition. It also counts reservations (erratum E3: INV-CAPACITY), and bounds the processes
    /// that drain (E25: INV-LIVE).
    pub(crate) fn spawning_allowed(&self, group: &Group) -> bool {
        self.may_reserve() && !self.is_capped(group)
    }
    fn may_reserve(&self) -> bool {
        self.count + self.reserved < self.max && self.has_live_room()
    }
    fn has_live_room(&self) -> bool {
        self.live() < self.live_limit()
    }
    fn is_capped(&self, group: &Group) -> bool {
        self.max_per_app.is_some_and(|max| group.size >= max)
    }

    /// Returns what the group needs and does not have under way.
    pub(crate) fn wants(&self, key: Key) -> Want {
        let group = self.group(key);
        // A group that backs off stands in no line, so no process is evicted for it (PROP-BACK-OFF-SPARES).
        if self.closed || group.spawning.is_some() || group.back_off_until.is_some() {
            return Want::Nothing;
        }
        let has_waiters = !group.queue.is_empty();
        if group.outdated > 0 {
            Want::Replacement
        } else if group.size == 0 && has_waiters {
            // Only a first process can end those waits (INV-WAIT-HAS-CAUSE).
            Want::First
        } else if has_waiters || group.size < group.min_processes() && !group.forgotten {
            // The minimum is refilled after every loss (erratum E28: PROP-MINIMUM-REFILLED), until the group is
            // detached by name (PROP-FORGOTTEN).
            if self.is_capped(group) { Want::Capped } else { Want::More }
        } else {
            Want::Nothing
        }
    }

    /// Moves the group to the list of what it now wants.
    pub(crate) fn reconsider(&mut self, key: Key, fx: &mut Effects<S>) {
        let group = self.group(key);
        if group.size == 0 && group.back_off_until.is_some() && !group.queue.is_empty() {
            // A group that backs off without a process can serve no get (erratum E27: INV-BACK-OFF).
            let error = group.last_error.clone().expect("a group that backs off has an error");
            self.resolve_all(key, || Outcome::SpawnFailed(error.clone()), fx);
            fx.push(Effect::DropError(error));
        }
        let want = self.wants(key);
        if want != self.group(key).want {
            self.leave_want(key);
            self.group_mut(key).want = want;
            if let Some(list) = Self::list_of(want, self) {
                let (list, groups) = list;
                list.push_back(groups, key);
            }
        }
    }

    pub(crate) fn leave_want(&mut self, key: Key) {
        let want = std::mem::take(&mut self.group_mut(key).want);
        if let Some((list, groups)) = Self::list_of(want, self) {
            list.remove(groups, key);
        }
    }

    fn list_of(want: Want, state: &mut State<S>) -> Option<(&mut List<Wanting>, &mut Slab<Group>)> {
        let list = match want {
            Want::Nothing => return None,
            Want::First => &mut state.first,
            Want::More => &mut state.more,
            Want::Replacement => &mut state.replacements,
            Want::Capped => &mut state.capped,
        };
        Some((list, &mut state.groups))
    }

    /// Starts the spawns for which there is capacity, and evicts processes for groups without one.
    pub(crate) fn new_app_group_creatable(&mut self, fx: &mut Effects<S>) {
        if self.closed {
            return;
        }
        self.serve_first(fx);
        // No process stays marked for a group that needs it no longer (INV-MARKED). This comes before any growth: an
        // unmarked process has room (PROP-GROWTH).
        while self.marked.len() > self.first.len() {
            self.unmark_oldest(fx);
            // The unmarked process may have been given its last session, and have left (erratum E36).
            self.serve_first(fx);
        }
        while let Some(group) = self.more.front().filter(|_| self.first.is_empty()) {
            if self.is_capped(self.group(group)) {
                // max_per_app was lowered meanwhile: move the group to the line of capped groups.
                self.reconsider(group, fx);
            } else if self.may_reserve() {
                self.start_spawn(group, Kind::Addition, fx);
            } else {
                break;
            }
        }
        // A group wants its next replacement as soon as it has one, until all are replaced (PROP-RESTART-ENDS).
        while let Some(group) = self.replacements.front().filter(|_| self.has_live_room()) {
            self.start_spawn(group, Kind::Replacement, fx);
        }
    }

    /// Spawns for the groups without a process, and evicts processes of other groups for them.
    fn serve_first(&mut self, fx: &mut Effects<S>) {
        while let Some(group) = self.first.front() {
            if self.may_reserve() {
                self.start_spawn(group, Kind::Addition, fx);
            } else if let Some(victim) = self.victim() {
                let loser = self.process(victim).group;
                self.detach_process(victim, DetachReason::Evicted, fx);
                self.reconsider(loser, fx);
            } else {
                if self.count + self.reserved >= self.max {
                    self.mark_victims();
                }
                break;
            }
        }
    }

    /// Returns the idle process to evict: the longest idle of a group above its minimum, or else the longest idle
    /// (erratum E29: PROP-VICTIM). The search passes over processes that a minimum protects.
    fn victim(&self) -> Option<Key> {
        if self.evictable == 0 {
            return self.inactive_apps.front();
        }
        let mut idle = self.inactive_apps.iter(&self.processes);
        idle.find(|&key| self.group(self.process(key).group).is_above_minimum())
    }

    /// Marks a busy process for eviction for each group without a process: it takes no more sessions. The victim is the
    /// least busy process of the group furthest above its minimum (erratum E18: PROP-NO-GROUP-STARVES).
    fn mark_victims(&mut self) {
        while self.marked.len() < self.first.len() {
            let Some(group) = self.by_surplus.first_of_highest() else { break };
            let processes = &mut self.groups[group.index()].processes;
            let key = processes.least_busy().expect("a group in this list has such a process");
            processes.remove(&mut self.processes, key);
            self.processes[key.index()].marked = true;
            processes.insert(&mut self.processes, key, End::Back);
            self.marked.push_back(&mut self.processes, key);
            self.refresh(group);
        }
    }

    /// Unmarks the process that was marked first, because another place became free.
    fn unmark_oldest(&mut self, fx: &mut Effects<S>) {
        let Some(key) = self.marked.pop_front(&mut self.processes) else { return };
        let group = self.process(key).group;
        let processes = &mut self.groups[group.index()].processes;
        processes.remove(&mut self.processes, key);
        self.processes[key.index()].marked = false;
        processes.insert(&mut self.processes, key, End::Back);
        self.refresh(group);
        self.global_queue_position_became_available(group, fx);
        self.reconsider(group, fx);
    }
}
