//! Who gets the next process when not all can have one.
//!
//! A group that wants a process and may not spawn one stands in one of four lists, first come, first
//! served. [`State::new_app_group_creatable`], named after the text's condition variable, goes through
//! them whenever something may have changed. Groups without a process come first: idle processes of
//! others are evicted for them (erratum E29), and if all are busy one is told to make room for each
//! (E18), so that none starves.

use super::effects::Effects;
use super::event::DetachReason;
use super::group::{End, Group, Want};
use super::spawn_order::Kind;
use super::spawner::Spawner;
use super::state::State;
use crate::collections::slab_list::Key;

impl<S: Spawner> State<S> {
    /// The text's condition, with what is reserved counted in (erratum E3: INV-CAPACITY) and what drains
    /// bounded (E25: INV-LIVE).
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
        self.max_per_app > 0 && group.size >= self.max_per_app
    }

    /// What the group needs and does not have under way.
    pub(crate) fn wants(&self, key: Key) -> Want {
        let group = self.group(key);
        // Who backs off stands in no line: nothing is evicted for it (PROP-BACK-OFF-SPARES).
        if self.closed || group.spawning.is_some() || group.back_off_until.is_some() {
            return Want::Nothing;
        }
        let somebody_waits = !group.queue.is_empty();
        if group.outdated > 0 {
            Want::Replacement
        } else if group.size == 0 && somebody_waits {
            // It has nothing else to wait for (INV-WAIT-HAS-CAUSE).
            Want::First
        } else if somebody_waits || group.size < group.min_processes() && !group.forgotten {
            // After every loss, not only when it is new (erratum E28: PROP-MINIMUM-REFILLED), until it is
            // detached by name (PROP-FORGOTTEN).
            if self.is_capped(group) { Want::Capped } else { Want::More }
        } else {
            Want::Nothing
        }
    }

    /// Gives out what capacity there is.
    pub(crate) fn new_app_group_creatable(&mut self, fx: &mut Effects<S>) {
        if self.closed {
            return;
        }
        while let Some(group) = self.first.front() {
            if self.may_reserve() {
                self.start_spawn(group, Kind::Addition, fx);
            } else if let Some(victim) = self.victim() {
                let loser = self.process(victim).group;
                self.detach_process(victim, DetachReason::Evicted, fx);
                self.reconsider(loser, fx);
            } else {
                if self.count + self.reserved >= self.max {
                    self.condemn();
                }
                break;
            }
        }
        while let Some(group) = self.more.front()
            && self.first.is_empty()
        {
            if self.is_capped(self.group(group)) {
                // max_per_app was lowered meanwhile: it moves over to those that are capped.
                self.reconsider(group, fx);
            } else if self.may_reserve() {
                self.start_spawn(group, Kind::Addition, fx);
            } else {
                break;
            }
        }
        // Each wants the next as soon as it has one, until none is outdated (PROP-RESTART-ENDS).
        while let Some(group) = self.replacements.front()
            && self.has_live_room()
        {
            self.start_spawn(group, Kind::Replacement, fx);
        }
        // Nobody makes room for a group that has it (INV-CONDEMNED).
        while self.condemned.len() > self.first.len() {
            self.reprieve(fx);
        }
    }

    /// Which idle process is evicted: the longest idle of a group above its minimum, or else the
    /// longest idle (erratum E29: PROP-VICTIM). Passes over those that a minimum protects.
    fn victim(&self) -> Option<Key> {
        if self.evictable == 0 {
            return self.inactive_apps.front();
        }
        let mut idle = self.inactive_apps.iter(&self.processes);
        idle.find(|&key| self.group(self.process(key).group).is_above_minimum())
    }

    /// All processes are busy: one for each group that has none stops taking sessions, the least busy
    /// of the group that is furthest above its minimum (erratum E18: PROP-NO-GROUP-STARVES).
    fn condemn(&mut self) {
        while self.condemned.len() < self.first.len() {
            let Some(group) = self.by_surplus.first_of_highest() else { break };
            let processes = &mut self.groups[group.index()].processes;
            let key = processes.least_busy().expect("a group in this list has such a process");
            processes.remove(&mut self.processes, key);
            self.processes[key.index()].condemned = true;
            processes.insert(&mut self.processes, key, End::Back);
            self.condemned.push_back(&mut self.processes, key);
            self.refresh(group);
        }
    }

    /// Room was made otherwise: the process condemned first may go on.
    fn reprieve(&mut self, fx: &mut Effects<S>) {
        let Some(key) = self.condemned.pop_front(&mut self.processes) else { return };
        let group = self.process(key).group;
        let processes = &mut self.groups[group.index()].processes;
        processes.remove(&mut self.processes, key);
        self.processes[key.index()].condemned = false;
        processes.insert(&mut self.processes, key, End::Back);
        self.refresh(group);
        self.global_queue_position_became_available(group, fx);
        self.reconsider(group, fx);
    }
}
