//! The pseudocode's `spawn_in_background` and `spawner_thread_callback`.
//!
//! A spawn begins in one action and ends in another. In between anything may happen: its group may be
//! restarted or detached, and `max` lowered. As ruled, the spawn holds a reservation meanwhile (E3), and
//! a group cancels its spawn by dropping the ticket (E2, E12).
//!
//! Errata: E3, E5 (last_used), E11 (no thread), E12, E26 (failure), E28 (the minimum). Invariants:
//! INV-RESERVED, INV-SPAWNING, INV-BACK-OFF. Properties: PROP-HEALTHY-STAY, PROP-NO-ORPHAN.

use crate::application_pool::checkout::End;
use crate::application_pool::configuration::{GroupId, ProcessId, Time};
use crate::application_pool::pool::{
    Event, Failure, Lock, Pool, Process, Reason, Spawn, SpawnResult,
};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Reserves capacity and orders the spawn. Precondition: the group is not spawning.
    pub(crate) fn spawn_in_background(&mut self, group: GroupId, replaces: bool) {
        self.leave_want(group);
        match replaces {
            true => self.replacing += 1,
            false if self.written(E3) => {}
            false => self.reserved += 1,
        }
        self.last_identifier += 1;
        let ticket = self.last_identifier;
        self.groups[group].spawning = Some(ticket);
        let options = self.groups[group].options;
        self.spawns.push(Spawn { group, options, ticket, replaces, under_lock: None });
        self.report(Event::SpawnBegun { group, ticket, replaces });
    }

    /// Ends a spawn: returns the reservation, then attaches the process or reports the error.
    pub(crate) fn spawn_has_ended(&mut self, ticket: ProcessId, result: SpawnResult) {
        let Some(at) = self.spawns.iter().position(|spawn| spawn.ticket == ticket) else { return };
        let spawn = self.spawns.remove(at);
        match spawn.replaces {
            true => self.replacing -= 1,
            false if self.written(E3) => {}
            false => self.reserved -= 1,
        }
        if spawn.under_lock.is_some() {
            return self.first_spawn_has_ended(&spawn, result);
        }
        let group = spawn.group;
        let wanted = self.groups[group].spawning == Some(ticket);
        if result == SpawnResult::NoThread && self.written(E11) {
            return; // The flag stays.
        }
        if wanted {
            self.groups[group].spawning = None;
        }
        match result {
            // The group was settled when it cancelled the spawn.
            SpawnResult::Process if !wanted && self.written(E12) => {
                self.orphans += 1;
                self.report(Event::Orphaned { ticket });
            }
            SpawnResult::Process if !wanted => self.discard(ticket),
            _ if !wanted => {}
            SpawnResult::Process => self.attach_or_discard(&spawn),
            _ => self.spawn_has_failed(&spawn),
        }
        self.changed(group);
    }

    /// Attaches a process: a replacement in exchange for the oldest outdated process, any other only if
    /// there is still room.
    fn attach_or_discard(&mut self, spawn: &Spawn) {
        let group = spawn.group;
        let g = &mut self.groups[group];
        let failures = g.failures;
        g.reload_pending = false;
        // If another process has failed early meanwhile, the group backs off, and its failures stay.
        if g.back_off_until.is_none() {
            (g.failures, g.last_error) = (0, false);
        }
        let replaces = spawn.replaces && g.outdated > 0;
        // max or max_per_app may have been lowered during the spawn.
        let room = self.count + self.reserved < self.max && !self.is_capped(group);
        if replaces {
            // Attach first: the group is never without a process.
            self.attach(spawn, failures);
            let oldest = *self.groups[group].processes.iter().min().expect("an outdated process");
            self.detach_process(oldest, Reason::Restarted);
        } else if room || self.written(E3) {
            self.attach(spawn, failures);
            if self.written(E28)
                && self.groups[group].size < self.options(group).min_processes
                && self.spawning_allowed(group)
            {
                // The pseudocode's thread spawns until the minimum is reached.
                self.spawn_in_background(group, false);
            }
        } else {
            self.discard(spawn.ticket);
        }
    }

    /// Shuts down a new process that is not attached.
    fn discard(&mut self, ticket: ProcessId) {
        self.totals.spawned += 1;
        self.totals.detached += 1;
        self.totals.unwanted += 1;
        self.report(Event::Unwanted { ticket });
    }

    fn attach(&mut self, spawn: &Spawn, failures: u32) {
        let (group, now) = (spawn.group, self.now);
        self.totals.spawned += 1;
        // E5 as written: the field is never set, so the process looks idle since long ago.
        let never: Time = now - 1_000_000;
        let written_e4 = self.written(E4);
        let g = &mut self.groups[group];
        if written_e4 && g.detached {
            // The pseudocode makes a new group object, with its own counters.
            (g.size, g.idle) = (0, 0);
        }
        (g.known, g.detached) = (true, false);
        g.size += 1;
        g.idle += 1;
        let generation = g.generation;
        self.processes.push(Process {
            identifier: spawn.ticket,
            group,
            options: spawn.options,
            start_time: now,
            last_used: if self.written(E5) { never } else { now },
            sessions: 0,
            processed: 0,
            failures_before: self.config().environment.early_deaths.then_some(failures),
            generation,
            detached: false,
            marked: false,
            disabled: false,
            drain_deadline: now,
        });
        self.insert(spawn.ticket, End::Front);
        self.inactive_apps.push(spawn.ticket);
        self.report(Event::Attached { group, process: spawn.ticket });
        self.mutate_count(self.count + 1);
        self.refresh(group);
        self.tell_of_idle();
    }

    /// Lets the group back off; its healthy processes stay. Gets that can no longer be served fail
    /// when the group is settled.
    fn spawn_has_failed(&mut self, spawn: &Spawn) {
        let group = spawn.group;
        self.totals.spawns_failed += 1;
        self.report(Event::SpawnFailed { group, ticket: spawn.ticket });
        if self.written(E26) {
            // E26 as written: the group is thrown away; the next get spawns again.
            self.detach_group_without_lock(group, Reason::SpawnFailed);
            if self.written(E17) {
                return;
            }
            return self.resolve_all(group, Failure::Spawn);
        }
        self.groups[group].failures = self.groups[group].failures.saturating_add(1);
        self.backs_off(group);
        if self.written(E27) && self.groups[group].size == 0 {
            self.resolve_all(group, Failure::Spawn);
        }
    }

    /// Begins the group's back-off.
    pub(crate) fn backs_off(&mut self, group: GroupId) {
        let until = self.now + self.back_off(self.groups[group].failures);
        let g = &mut self.groups[group];
        g.last_error = true;
        g.back_off_until = Some(until);
        self.backing_off.retain(|&other| other != group);
        let ends_before = |&other: &GroupId| self.groups[other].back_off_until <= Some(until);
        let at = self.backing_off.partition_point(ends_before);
        self.backing_off.insert(at, group);
        self.tell_cleaner(Some(until));
    }

    /// Returns the back-off after this number of failures in a row.
    pub(crate) fn back_off(&self, failures: u32) -> Time {
        let (first, cap) = self.config().back_off;
        let doubled = failures.saturating_sub(1).min(Time::BITS - 2);
        first.saturating_mul(1 << doubled).min(cap)
    }
    pub(crate) fn end_back_off(&mut self, group: GroupId) {
        if self.groups[group].back_off_until.take().is_some() {
            self.backing_off.retain(|&g| g != group);
        }
    }

    /// E4 as written: ends a spawn under the lock.
    fn first_spawn_has_ended(&mut self, spawn: &Spawn, result: SpawnResult) {
        let client = spawn.under_lock.expect("a spawn under the lock");
        self.lock = Lock::Free;
        if result != SpawnResult::Process {
            self.totals.spawns_failed += 1;
            self.report(Event::SpawnFailed { group: spawn.group, ticket: spawn.ticket });
            self.fails(client, Failure::Spawn);
            return self.changed(spawn.group);
        }
        self.groups[spawn.group].reload_pending = false;
        self.attach(spawn, 0);
        self.process_mut(spawn.ticket).last_used = self.now;
        self.open_session(spawn.ticket);
        self.serve(client, spawn.ticket);
        self.leaves_with_last_session(spawn.ticket);
        if self.options(spawn.group).min_processes > 1 {
            self.spawn_if_allowed(spawn.group);
        }
        self.changed(spawn.group);
    }
}
