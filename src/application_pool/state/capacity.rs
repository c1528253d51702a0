//! Capacity: which group may spawn next when the pool is full.
//!
//! A group that wants a process and may not spawn one waits in one of five lists (`Want`), first come, first
//! served. [`State::new_app_group_creatable`], named after the pseudocode's condition variable, serves
//! them whenever something may have changed.
//!
//! Groups without a process come first, so that each gets its turn. For each of them the pool evicts an idle
//! process of another group (erratum E29). If all processes are busy, the first one that becomes idle makes room
//! (E37), before it serves its own group. One busy process is marked for eviction (E18): it is given a session only
//! if no other process of its group has room. So its group goes on being served, and the process soon becomes idle
//! if others can take its sessions. Sessions that overlap or never end hold the place until a deadline: then
//! the pool detaches the marked process, which drains. The deadline is the time of a drain, counted from when the group
//! began to wait for its first process.
//!
//! Then come the groups whose gets wait for one more process. They stand in the order in which they were last served,
//! so the first of them has waited longest. It starves if that is as long as a drain may take, for example because
//! sessions that never end hold all its processes. Then the pool evicts an idle process of another group for it, or the
//! first one that becomes idle makes room (E37). A group that starves comes before the groups that have waited less long
//! for their first process. No busy process is marked for it: the other group may be worse off. Groups that are only
//! below their minimum come last.

use super::effects::{Effect, Effects};
use super::group::{Edge, Group, Want, Wanting};
use super::spawn_order::Kind;
use super::state::{Outcome, State};
use super::table_keys::{GroupKey, Groups, ProcessKey};
use crate::application_pool::api::event::DetachReason;
use crate::application_pool::api::spawner::Spawner;
use crate::kernel::clock::Time;
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::list::List;

impl<S: Spawner> State<S> {
    /// The pseudocode's condition. It also counts reservations (erratum E3: INV-CAPACITY), and bounds the processes
    /// that drain (E25: INV-LIVE).
    pub(crate) fn spawning_allowed(&self, group: &Group) -> bool {
        self.may_reserve() && !self.is_capped(group)
    }
    pub(super) fn may_reserve(&self) -> bool {
        self.count + self.reserved < self.max && self.has_live_room()
    }
    pub(super) fn has_live_room(&self) -> bool {
        self.live() < self.live_limit()
    }
    fn is_capped(&self, group: &Group) -> bool {
        self.max_per_app.is_some_and(|max| group.size >= max)
    }

    /// Returns what the group needs and does not have under way.
    pub(crate) fn wants(&self, key: GroupKey) -> Want {
        let group = self.group(key);
        // A group that backs off stands in no line, so no process is evicted for it (PROP-BACK-OFF-SPARES).
        if self.closed || group.spawning.is_some() || group.back_off_until.is_some() {
            return Want::Nothing;
        }
        let has_waiters = !group.queue.is_empty();
        if group.outdated > 0 {
            Want::Replacement
        } else if group.enabled() == 0 && has_waiters && !self.is_capped(group) {
            // Only a first process can end those waits (INV-WAIT-HAS-CAUSE).
            Want::First
        } else if has_waiters || group.enabled() < group.min_processes() && !group.forgotten {
            // The minimum is refilled after every loss (erratum E28: PROP-MINIMUM-REFILLED), until the group is
            // detached by name (PROP-FORGOTTEN).
            match self.is_capped(group) {
                true => Want::Capped,
                false if has_waiters => Want::More,
                false => Want::Minimum,
            }
        } else {
            Want::Nothing
        }
    }

    /// Moves the group to the list of what it now wants.
    pub(crate) fn reconsider(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        let group = self.group(key);
        if group.is_out_of_order() && !group.queue.is_empty() {
            // A group that backs off without a process or spawn can serve no get (erratum E27: INV-BACK-OFF).
            let error = group.last_error.clone().expect("a group that backs off has an error");
            self.resolve_all(key, || Outcome::SpawnFailed(error.clone()), fx);
            fx.push(Effect::DropError(error));
        }
        let want = self.wants(key);
        if want != self.group(key).want {
            self.leave_want(key);
            self.enter(want, key);
        }
    }

    /// Moves the group behind those whose gets have waited longer for one more process (erratum E37: INV-LAST-SERVED).
    pub(crate) fn was_served(&mut self, key: GroupKey) {
        if self.group(key).want == Want::More {
            self.leave_want(key);
            self.enter(Want::More, key);
        }
    }

    fn enter(&mut self, want: Want, key: GroupKey) {
        let group = &mut self.groups.links()[key];
        group.want = want;
        if matches!(want, Want::First | Want::More) {
            group.room_due = self.clock.now().plus(self.limits.drain_timeout);
        }
        if let Some((list, groups)) = Self::list_of(want, self) {
            list.push_back(groups, key);
            self.in_lines += 1;
        }
    }

    pub(crate) fn leave_want(&mut self, key: GroupKey) {
        let want = std::mem::take(&mut self.groups.links()[key].want);
        if let Some((list, groups)) = Self::list_of(want, self) {
            list.remove(groups, key);
            self.in_lines -= 1;
        }
    }

    fn list_of(
        want: Want,
        state: &mut State<S>,
    ) -> Option<(&mut List<Wanting>, &mut Arena<Group, Groups>)> {
        let list = match want {
            Want::Nothing => return None,
            Want::First => &mut state.first,
            Want::More => &mut state.more,
            Want::Minimum => &mut state.minimum,
            Want::Replacement => &mut state.replacements,
            Want::Capped => &mut state.capped,
        };
        Some((list, state.groups.links()))
    }

    /// Starts a spawn for which there is capacity, or evicts a process for a group without one. Returns whether it did: then there
    /// may be more to do, once `settle` has settled the group that this has touched.
    pub(crate) fn new_app_group_creatable(&mut self, fx: &mut Effects<S>) -> bool {
        if self.closed {
            return false;
        }
        if let Some(group) = self.most_urgent(self.clock.now()) {
            if self.grow(group, fx) || self.evict(fx) {
                return true;
            }
            if !self.first.is_empty() && self.count + self.reserved >= self.max {
                self.mark_victim();
            }
        }
        if self.first.is_empty() {
            // No process stays marked when no group needs its place (INV-MARKED).
            self.unmark();
            let next = self.more.front().or_else(|| self.minimum.front());
            if next.is_some_and(|group| self.grow(group, fx)) {
                return true;
            }
        }
        // A group wants its next replacement as soon as it has one, until all are replaced (PROP-RESTART-ENDS).
        let Some(group) = self.replacements.front().filter(|_| self.has_live_room()) else {
            return false;
        };
        self.start_spawn(group, Kind::Replacement, fx);
        true
    }

    /// Spawns for the first group of a line, if there is room. A group that may not grow leaves the line.
    fn grow(&mut self, group: GroupKey, fx: &mut Effects<S>) -> bool {
        if self.is_capped(self.group(group)) {
            // max_per_app was lowered meanwhile; a group without an enabled process has disabled ones.
            self.reconsider(group, fx);
        } else if self.may_reserve() {
            self.start_spawn(group, Kind::Addition, fx);
        } else {
            return false;
        }
        true
    }

    /// Returns the group for which a process of another group is evicted. A group that starves comes before those that
    /// have waited less long for their first process. Otherwise the process that it gets would be evicted for the group
    /// that has just lost its place, and so on (erratum E37: PROP-ENDLESS-SESSIONS).
    fn most_urgent(&self, now: Time) -> Option<GroupKey> {
        let first = self.first.front();
        let has_waited = first.is_some_and(|group| now >= self.group(group).room_due);
        self.starving(now).filter(|_| !has_waited).or(first)
    }

    /// Evicts an idle process. Returns whether there was one.
    fn evict(&mut self, fx: &mut Effects<S>) -> bool {
        let Some(victim) = self.victim() else { return false };
        self.detach_process(victim, DetachReason::Evicted, fx);
        true
    }

    /// Returns the idle process to evict: the longest idle of a group above its minimum, or else the longest idle
    /// (erratum E29: PROP-VICTIM).
    fn victim(&self) -> Option<ProcessKey> {
        self.longest_idle().or_else(|| {
            let group = self.inactive_apps.first_protected(&self.groups)?;
            self.group(group).processes.longest_idle()
        })
    }
    /// Returns the longest idle process of a group above its minimum.
    pub(crate) fn longest_idle(&self) -> Option<ProcessKey> {
        let group = self.inactive_apps.first_evictable(&self.groups)?;
        self.group(group).processes.longest_idle()
    }

    /// Whether a process of this group makes room as soon as it is idle: a group waits for its first process, or another
    /// group starves. A group at its minimum makes room only if no third one is above its own (errata E29, E37).
    pub(crate) fn makes_room(&self, group: GroupKey, now: Time) -> bool {
        // Otherwise gets of the process's own group could keep the place for ever (PROP-ENDLESS-SESSIONS).
        let Some(urgent) = self.most_urgent(now) else { return false };
        let above = |group: GroupKey| self.group(group).surplus > Some(0);
        let third = self.by_surplus.first_of_highest().filter(|third| *third != urgent);
        let starves = self.group(urgent).want == Want::More;
        !(starves && urgent == group) && (above(group) || !third.is_some_and(above))
    }

    /// Returns the group whose gets wait for one more process, and none of whose gets was served for as long as a drain
    /// may take (erratum E37).
    fn starving(&self, now: Time) -> Option<GroupKey> {
        self.more.front().filter(|group| now >= self.group(*group).room_due)
    }

    /// Returns when a process must make room: at the deadline of the group that has waited longest.
    pub(crate) fn room_due(&self) -> Option<Time> {
        let (group, helps) = match self.first.front() {
            // Where only draining processes are in the way, detaching one more would not help.
            Some(group) => (group, self.marked.is_some() && self.count + self.reserved >= self.max),
            None => (self.more.front()?, self.victim().is_some()),
        };
        helps.then(|| self.group(group).room_due)
    }

    /// Detaches the marked process, which has not become idle in time. It drains, and its sessions hold no place
    /// (erratum E37). Without a marked process, an idle one makes room for a group that starves.
    pub(crate) fn make_room(&mut self, fx: &mut Effects<S>) {
        match self.marked {
            Some(victim) => self.detach_process(victim, DetachReason::Evicted, fx),
            None => self.pool_touched = true,
        }
    }

    /// Marks a busy process for eviction, unless one is marked: the least busy process of the group furthest above its
    /// minimum (erratum E18: PROP-NO-GROUP-STARVES).
    fn mark_victim(&mut self) {
        if self.marked.is_some() {
            return;
        }
        let Some(group) = self.by_surplus.first_of_highest() else { return };
        let key = self.group(group).processes.least_busy();
        self.marked = key;
        self.set_mark(key.expect("a group in this list has a process"), true);
    }

    /// Room was made otherwise, or is needed no longer.
    pub(crate) fn unmark(&mut self) {
        if let Some(key) = self.marked.take() {
            self.set_mark(key, false);
        }
    }

    fn set_mark(&mut self, key: ProcessKey, marked: bool) {
        let processes = &mut self.groups.touch(self.processes[key].group).processes;
        processes.remove(&mut self.processes, key);
        self.processes[key].marked = marked;
        processes.insert(&mut self.processes, key, Edge::Back);
    }
}
