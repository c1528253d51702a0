//! The pseudocode's `spawning_allowed`, and the order in which groups get capacity.
//!
//! In the pseudocode a get that needs a process spawns it, evicts another for it, or waits to be woken.
//! As ruled a group that wants a process and may not spawn stands in one of five lines, first come, first
//! served. `new_app_group_creatable`, named after the pseudocode's condition variable, serves the lines
//! whenever capacity may have changed.
//!
//! Groups without a process come first: idle processes of other groups are evicted for them. If all
//! processes are busy, the first one that becomes idle makes room. One of them is marked: it is given a new
//! session only if no other process of its group has room. At the deadline it is detached, and drains. The
//! deadline is the time of a drain, counted from when the group came into the line.
//!
//! Then come the groups whose gets wait for one more process. They stand in the order in which they were last
//! served. The first of them starves if that is as long ago as a drain may take. Then an idle process of another group
//! is evicted for it, or the first one that becomes idle makes room. A group that starves comes before the groups that
//! have waited less long for their first process. No busy process is marked for it: the other group may be worse off.
//! Groups that are only below their minimum come last.
//!
//! Errata: E3 (reservations), E18, E37 (making room), E25 (draining processes), E28 (the minimum), E29 (the
//! victim). Invariants: INV-CAPACITY, INV-LIVE, INV-MARKED, INV-EVICTABLE, INV-WANT,
//! INV-LAST-SERVED.

use crate::application_pool::checkout::End;
use crate::application_pool::configuration::{GroupId, ProcessId, Time};
use crate::application_pool::pool::{Event, Lock, Place, Pool, Reason, Want};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Returns whether the group may spawn one more process.
    pub fn spawning_allowed(&self, group: GroupId) -> bool {
        self.may_reserve() && !self.is_capped(group)
    }
    /// Returns whether the pool may spawn one more process.
    pub fn may_reserve(&self) -> bool {
        self.count + self.reserved < self.max && self.has_live_room()
    }
    pub(crate) fn has_live_room(&self) -> bool {
        self.written(E25) || self.live() < self.live_limit()
    }
    pub(crate) fn is_capped(&self, group: GroupId) -> bool {
        self.max_per_app > 0 && self.groups[group].size >= self.max_per_app
    }
    /// Returns the number of live processes, draining ones and spawns included.
    pub fn live(&self) -> usize {
        let detached = self.processes.iter().filter(|process| process.detached);
        self.count + self.reserved + self.replacing + detached.count()
    }
    pub(crate) fn live_limit(&self) -> usize {
        self.max + self.config().max_draining.unwrap_or(self.max)
    }

    /// Returns the want that the group's state asks for.
    pub fn wants(&self, group: GroupId) -> Want {
        let g = &self.groups[group];
        // E17 as written: a woken get orders its own spawn.
        let gets_wait = !g.queue.is_empty() && !self.written(E17);
        let too_few = g.enabled() < self.options(group).min_processes && g.known && !g.forgotten;
        let backs_off = g.back_off_until.is_some() && !(self.written(E27) && g.size == 0);
        if self.closed || g.spawning.is_some() || backs_off {
            Want::Nothing
        } else if g.outdated > 0 {
            Want::Replacement
        } else if g.enabled() == 0 && gets_wait && (g.size == 0 || !self.is_capped(group)) {
            Want::First
        } else if gets_wait || too_few && !self.written(E28) {
            match self.is_capped(group) {
                true => Want::Capped,
                false if gets_wait => Want::More,
                false => Want::Minimum,
            }
        } else {
            Want::Nothing
        }
    }

    /// Returns whether a process of this group makes room as soon as it is idle: a group waits for its first
    /// process, or another group starves. A group at its minimum makes room only if no third one is above its own (E29,
    /// E37).
    pub(crate) fn makes_room(&self, group: GroupId) -> bool {
        let Some(urgent) = self.most_urgent() else { return false };
        let above = |id: GroupId| self.groups[id].surplus > Some(0);
        let third = self.furthest_above().filter(|third| *third != urgent);
        let starves = self.groups[urgent].want == Want::More;
        let made = !(starves && urgent == group) && (above(group) || !third.is_some_and(above));
        made && !self.written(E18) && !self.written(E37)
    }

    /// Returns the group that is furthest above its minimum; of several, the first in the list.
    fn furthest_above(&self) -> Option<GroupId> {
        let surplus = |group: &GroupId| self.groups[*group].surplus;
        let most = self.by_surplus.iter().map(surplus).max()?;
        self.by_surplus.iter().copied().find(|group| surplus(group) == most)
    }

    /// Returns the group whose gets wait for one more process, and none of whose gets was served for as long as a drain
    /// may take (E37).
    fn starving(&self) -> Option<GroupId> {
        let longest = *self.more.first()?;
        let starves = self.now >= self.groups[longest].room_due && !self.written(E37);
        starves.then_some(longest)
    }

    /// Returns when a process must make room: the deadline of the group that waits longest (E37).
    pub(crate) fn room_due(&self) -> Option<Time> {
        let (group, helps) = match self.first.first() {
            Some(group) => {
                (group, self.count + self.reserved >= self.max && !self.marked.is_empty())
            }
            None => (self.more.first()?, self.victim().is_some()),
        };
        (helps && !self.written(E37)).then(|| self.groups[*group].room_due)
    }

    /// Detaches the marked process, which has not become idle in time: its sessions hold no place (E37). Without one,
    /// an idle process makes room for a group that starves.
    pub(crate) fn make_room(&mut self) {
        let Some(&process) = self.marked.first() else {
            self.pool_changed = true;
            return;
        };
        let group = self.process(process).group;
        self.detach_process(process, Reason::Evicted(None));
        self.changed(group);
    }

    /// Grants capacity to the groups in the lines.
    pub(crate) fn new_app_group_creatable(&mut self) {
        if self.closed || self.lock != Lock::Free {
            return;
        }
        self.serve_urgent();
        while self.marked.len() > self.first.len() {
            self.unmark();
            // With E37 as written, it may have been given its last session, and have left (E36).
            self.serve_urgent();
        }
        while let Some(&group) = self.more.first().or(self.minimum.first())
            && self.first.is_empty()
        {
            if self.is_capped(group) {
                // max_per_app was lowered: move the group to the line of capped groups.
                self.reconsider(group);
            } else if self.may_reserve() {
                self.spawn_in_background(group, false);
            } else {
                break;
            }
        }
        while let Some(&group) = self.replacements.first()
            && self.has_live_room()
        {
            self.spawn_in_background(group, true);
        }
    }

    /// Spawns for the groups without an enabled process and for those that starve, and evicts processes of other groups
    /// for them.
    fn serve_urgent(&mut self) {
        while let Some(group) = self.most_urgent() {
            if self.groups[group].size > 0 && self.is_capped(group) {
                // max_per_app was lowered; one without an enabled process has disabled ones.
                self.reconsider(group);
            } else if self.may_reserve() {
                self.spawn_in_background(group, false);
            } else if !self.evict_for(group) {
                let full = self.count + self.reserved >= self.max;
                if !self.first.is_empty() && full && !self.written(E18) {
                    self.mark_for_eviction();
                }
                break;
            }
        }
    }

    /// Returns the group for which a process of another group is evicted. A group that starves comes before those that
    /// have waited less long for their first process: otherwise the process that it gets would be evicted for the group
    /// that has just lost its place, and so on (E37).
    fn most_urgent(&self) -> Option<GroupId> {
        let first = self.first.first().copied();
        let has_waited = first.is_some_and(|group| self.now >= self.groups[group].room_due);
        self.starving().filter(|_| !has_waited).or(first)
    }

    /// Returns the idle process to evict: the longest idle of a group above its minimum, or else the
    /// longest idle.
    pub fn victim(&self) -> Option<ProcessId> {
        let longest = self.inactive_apps.first().copied();
        let unprotected = self.next_idle().filter(|_| !self.written(E29));
        unprotected.or(longest)
    }

    /// Returns the longest idle process of a group above its minimum.
    pub(crate) fn next_idle(&self) -> Option<ProcessId> {
        let above = |p: &&ProcessId| {
            let group = self.process(**p).group;
            self.groups[group].enabled() > self.options(group).min_processes
        };
        self.inactive_apps.iter().find(above).copied()
    }

    /// Marks one busy process: the least busy of the group that is furthest above its minimum. With E37 as
    /// written, marks one for each group without a process.
    fn mark_for_eviction(&mut self) {
        let wanted = if self.written(E37) { self.first.len() } else { 1 };
        while self.marked.len() < wanted {
            let Some(group) = self.furthest_above() else { break };
            let stays = |p: &&ProcessId| self.place(self.process(**p)) < Place::Retiring;
            let least_busy = self.groups[group].processes.iter().find(stays);
            let process = *least_busy.expect("a group in this list has such a process");
            self.remove(process);
            self.process_mut(process).marked = true;
            self.insert(process, End::Back);
            self.marked.push(process);
            self.report(Event::MarkedForEviction { process });
            self.refresh(group);
        }
    }

    /// Unmarks the process that was marked first: room was made in another way.
    fn unmark(&mut self) {
        let process = self.marked[0];
        let group = self.process(process).group;
        self.unmark_process(process);
        self.refresh(group);
        self.global_queue_position_became_available(group);
        self.reconsider(group);
    }

    pub(crate) fn unmark_process(&mut self, process: ProcessId) {
        self.marked.retain(|&marked| marked != process);
        self.remove(process);
        self.process_mut(process).marked = false;
        self.insert(process, End::Back);
        self.report(Event::Unmarked { process });
    }
}
