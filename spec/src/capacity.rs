//! The text's `spawning_allowed`, and who gets the next process when not all can have one.
//!
//! In the text a get that needs a process spawns it, evicts for it, or waits to be woken. As ruled
//! a group that wants a process and may not spawn one stands in one of four lines, first come, first
//! served, and `new_app_group_creatable`, named after the text's condition variable, goes through them
//! whenever something may have changed. Groups without a process come first: idle processes of others
//! are evicted for them, and if all are busy one is condemned for each: it takes no more sessions.
//!
//! Errata: E3 (what counts), E18 (who makes room), E25 (what lives), E28 (the minimum), E29 (the victim).
//! Invariants: INV-CAPACITY, INV-LIVE, INV-CONDEMNED, INV-EVICTABLE, INV-WANT.

use crate::checkout::End;
use crate::configuration::{GroupId, ProcessId};
use crate::pool::{Event, Lock, Place, Pool, Want};
use crate::rules::Erratum::*;

impl Pool {
    /// Whether one more process may be begun for the group.
    pub fn spawning_allowed(&self, group: GroupId) -> bool {
        self.may_reserve() && !self.is_capped(group)
    }
    /// Whether one more process may be begun at all.
    pub fn may_reserve(&self) -> bool {
        self.count + self.reserved < self.max && self.has_live_room()
    }
    pub(crate) fn has_live_room(&self) -> bool {
        self.written(E25) || self.live() < self.live_limit()
    }
    pub(crate) fn is_capped(&self, group: GroupId) -> bool {
        self.max_per_app > 0 && self.groups[group].size >= self.max_per_app
    }
    /// Everything that lives on the machine because of this pool, or soon will.
    pub fn live(&self) -> usize {
        let detached = self.processes.iter().filter(|process| process.detached);
        self.count + self.reserved + self.replacing + detached.count()
    }
    pub(crate) fn live_limit(&self) -> usize {
        self.max + self.config().max_draining.unwrap_or(self.max)
    }

    /// What the group needs and does not have under way.
    pub fn wants(&self, group: GroupId) -> Want {
        let g = &self.groups[group];
        // As the text has it, who waits looks after what it needs when it is woken.
        let somebody_waits = !g.queue.is_empty() && !self.written(E17);
        let too_few = g.size < self.options(group).min_processes && g.known && !g.forgotten;
        let backs_off = g.back_off_until.is_some() && !(self.written(E27) && g.size == 0);
        if self.closed || g.spawning.is_some() || backs_off {
            Want::Nothing
        } else if g.outdated > 0 {
            Want::Replacement
        } else if g.size == 0 && somebody_waits {
            Want::First
        } else if somebody_waits || too_few && !self.written(E28) {
            if self.is_capped(group) { Want::Capped } else { Want::More }
        } else {
            Want::Nothing
        }
    }

    /// Gives out what capacity there is.
    pub(crate) fn new_app_group_creatable(&mut self) {
        if self.closed || self.lock != Lock::Free {
            return;
        }
        while let Some(&group) = self.first.first() {
            if self.may_reserve() {
                self.spawn_in_background(group, false);
            } else if !self.evict_for(group) {
                if self.count + self.reserved >= self.max && !self.written(E18) {
                    self.condemn();
                }
                break;
            }
        }
        while let Some(&group) = self.more.first()
            && self.first.is_empty()
        {
            if self.is_capped(group) {
                // max_per_app was lowered meanwhile: it moves over to those that are capped.
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
        while self.condemned.len() > self.first.len() {
            self.reprieve();
        }
    }

    /// Which idle process is evicted: the longest idle of a group above its minimum, or else the
    /// longest idle.
    pub fn victim(&self) -> Option<ProcessId> {
        let longest = self.inactive_apps.first().copied();
        let unprotected = self.next_idle().filter(|_| !self.written(E29));
        unprotected.or(longest)
    }

    /// The longest idle process of a group above its minimum.
    pub(crate) fn next_idle(&self) -> Option<ProcessId> {
        let above = |p: &&ProcessId| {
            let group = self.process(**p).group;
            self.groups[group].size > self.options(group).min_processes
        };
        self.inactive_apps.iter().find(above).copied()
    }

    /// All processes are busy: for each group that has none one stops taking sessions, the least busy
    /// of the group that is furthest above its minimum.
    fn condemn(&mut self) {
        while self.condemned.len() < self.first.len() {
            let surplus = |group: &GroupId| self.groups[*group].surplus;
            let Some(most) = self.by_surplus.iter().map(surplus).max() else { break };
            let group = self.by_surplus.iter().find(|group| surplus(group) == most);
            let group = *group.expect("the group that has the most");
            let stays = |p: &&ProcessId| self.place(self.process(**p)) != Place::Retiring;
            let least_busy = self.groups[group].processes.iter().find(stays);
            let process = *least_busy.expect("a group in this list has such a process");
            self.remove(process);
            self.process_mut(process).condemned = true;
            self.insert(process, End::Back);
            self.condemned.push(process);
            self.tell(Event::Condemned { process });
            self.refresh(group);
        }
    }

    /// Room was made otherwise: the process condemned first may go on.
    fn reprieve(&mut self) {
        let process = self.condemned.remove(0);
        let group = self.process(process).group;
        self.remove(process);
        self.process_mut(process).condemned = false;
        self.insert(process, End::Back);
        self.tell(Event::Reprieved { process });
        self.refresh(group);
        self.global_queue_position_became_available(group);
        self.reconsider(group);
    }
}
