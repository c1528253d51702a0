//! The pseudocode's `detach_without_lock` and `detach_group_without_lock`, draining and closing.
//!
//! The pseudocode leaves two cases open. As ruled, a process that is detached while it has sessions
//! drains (E13). Closing the pool detaches every group and fails every waiting get (E32).
//!
//! Errata: E2 (no join under the lock), E6 (the group's name), E9 (size), E13, E25, E32. Invariants:
//! INV-GROUP-SIZE, INV-GROUP-ACCESSIBLE, INV-PROCESS-ACCESSIBLE, INV-DRAINING, INV-CLOSED. Properties:
//! PROP-DRAIN-ENDS.

use crate::application_pool::checkout::End;
use crate::application_pool::configuration::{GroupId, ProcessId};
use crate::application_pool::pool::{At, Event, Failure, Lock, Pool, Process, Reason};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Detaches the process with this identifier, if it is attached.
    pub(crate) fn detach_without_lock(&mut self, identifier: ProcessId) {
        let Some(process) = self.attached(identifier) else { return };
        let group = process.group;
        self.detach_process(identifier, Reason::Requested);
        self.changed(group);
    }

    /// Disables a process, or enables it again, if it is attached. Disabled, it is given no sessions, keeps its place,
    /// and counts as active.
    pub(crate) fn set_enabled(&mut self, identifier: ProcessId, enabled: bool) {
        let Some(process) = self.attached(identifier) else { return };
        if process.disabled != enabled {
            return;
        }
        let (group, unused, now) = (process.group, process.sessions == 0, self.now);
        if self.marked.contains(&identifier) {
            self.unmark_process(identifier);
        }
        self.remove(identifier);
        self.process_mut(identifier).disabled = !enabled;
        self.insert(identifier, if unused { End::Front } else { End::Back });
        let g = &mut self.groups[group];
        if enabled {
            g.disabled -= 1
        } else {
            g.disabled += 1
        }
        if unused && enabled {
            g.idle += 1;
            self.process_mut(identifier).last_used = now;
            self.inactive_apps.push(identifier);
            self.mutate_active(self.active - 1);
        } else if unused {
            g.idle -= 1;
            self.inactive_apps.retain(|&p| p != identifier);
            self.mutate_active(self.active + 1);
        }
        self.changed(group);
        if unused && enabled {
            self.tell_of_idle();
        }
    }

    /// Detaches an attached process that has failed.
    ///
    /// If it has not proved itself, this counts as a failed spawn (E26): it has lived for less than the longest
    /// back-off, and has had no session or has lived for less than the first. Only the first such failure in a row is
    /// followed by a spawn at once.
    pub(crate) fn detach_failed(&mut self, identifier: ProcessId) {
        let process = self.process(identifier);
        let (group, early) = (process.group, self.failed_early(process));
        self.detach_process(identifier, Reason::Failed);
        let Some(failures) = early.filter(|_| !self.written(E26)) else { return };
        let failures = self.groups[group].failures.max(failures).saturating_add(1);
        self.groups[group].failures = failures;
        if failures > 1 {
            self.backs_off(group);
        }
    }
    /// Returns the failures before this process, if its failure now counts as one more.
    pub(crate) fn failed_early(&self, process: &Process) -> Option<u32> {
        let (age, longest) = (self.now - process.start_time, self.config().back_off.1);
        let proved = process.sessions > 0 && self.session_proves(process);
        let early = !proved && age < longest;
        process.failures_before.filter(|_| early)
    }
    /// Returns whether a session proves the process (E26): it has lived for the first back-off.
    pub(crate) fn session_proves(&self, process: &Process) -> bool {
        self.now - process.start_time >= self.config().back_off.0
    }
    /// Detaches the process that is seen to have failed, if it is attached.
    pub(crate) fn process_has_failed(&mut self, identifier: ProcessId) {
        let Some(process) = self.attached(identifier) else { return };
        let group = process.group;
        self.detach_failed(identifier);
        self.changed(group);
    }

    /// Removes an attached process from its group. An idle process is gone; a busy one drains.
    pub(crate) fn detach_process(&mut self, identifier: ProcessId, reason: Reason) {
        let process = self.process(identifier);
        let (group, busy) = (process.group, process.sessions > 0);
        let (idle, disabled) = (process.is_idle(), process.disabled);
        let outdated = process.generation < self.groups[group].generation;
        self.report(Event::Detached { process: identifier, group, reason, busy });

        self.remove(identifier);
        self.marked.retain(|&p| p != identifier);
        let g = &mut self.groups[group];
        g.size -= 1;
        g.outdated -= usize::from(outdated);
        g.disabled -= usize::from(disabled);
        if idle {
            self.groups[group].idle -= 1;
            self.inactive_apps.retain(|&p| p != identifier);
        } else {
            self.mutate_active(self.active - 1);
        }
        self.mutate_count(self.count - 1);
        self.totals.detached += 1;

        if busy {
            let deadline = self.now + self.config().drain_timeout;
            let info = self.process_mut(identifier);
            info.detached = true;
            info.marked = false;
            info.drain_deadline = deadline;
            if !self.written(E13) {
                self.draining.push(identifier);
            }
            self.tell_cleaner(Some(deadline));
        } else {
            self.remove_process(identifier);
        }
        self.refresh(group);
        if self.written(E4) && self.groups[group].processes.is_empty() {
            self.detach_empty_group(group, reason);
        }
    }

    /// E4 as written: removes a group that has no process left.
    fn detach_empty_group(&mut self, group: GroupId, reason: Reason) {
        self.give_up_spawn(group);
        self.groups[group].detached = true;
        let under_the_name_of = match reason {
            Reason::Evicted(Some(requester)) if self.written(E6) => requester,
            _ => group,
        };
        self.groups[under_the_name_of].known = false;
    }

    /// Ends a drain: the process has no session left, or its deadline has passed.
    pub(crate) fn end_drain(&mut self, identifier: ProcessId) {
        let group = self.process(identifier).group;
        self.draining.retain(|&p| p != identifier);
        self.remove_process(identifier);
        self.changed(group);
    }

    /// Removes the process. A client that still has a session with it loses its reference.
    fn remove_process(&mut self, identifier: ProcessId) {
        let busy = self.process(identifier).sessions > 0;
        self.processes.retain(|p| p.identifier != identifier);
        for client in &mut self.clients {
            match &mut client.at {
                At::Connecting(process) | At::InSession(process)
                    if *process == Some(identifier) =>
                {
                    *process = None;
                }
                _ => {}
            }
        }
        self.report(Event::Gone { process: identifier, busy });
    }

    /// Detaches every process of the group, oldest first, and cancels its spawn. Waiting gets keep
    /// waiting for a new process.
    pub(crate) fn detach_group_without_lock(&mut self, group: GroupId, reason: Reason) {
        let size = self.groups[group].size;
        while let Some(&oldest) = self.groups[group].processes.iter().min() {
            self.detach_process(oldest, reason);
        }
        if self.written(E9) {
            self.groups[group].size = size;
        }
        self.give_up_spawn(group);
    }

    /// Cancels the group's spawn. Its reservation stays until the spawn ends, because a process may
    /// already live.
    pub(crate) fn give_up_spawn(&mut self, group: GroupId) {
        let Some(ticket) = self.groups[group].spawning.take() else { return };
        if self.written(E2) {
            // The caller joins the thread, and the thread waits for the lock.
            self.groups[group].spawning = Some(ticket);
            self.lock = Lock::Joining(group);
            return self.report(Event::LockHeld);
        }
        if self.written(E3) {
            // Without a reservation there is no reason to remember the spawn.
            self.spawns.retain(|spawn| spawn.ticket != ticket);
        }
        self.report(Event::GivenUp { ticket });
    }

    /// Detaches the group with this name and forgets it.
    pub(crate) fn detach_group(&mut self, group: GroupId) {
        if !self.groups[group].known {
            return;
        }
        self.detach_group_without_lock(group, Reason::Requested);
        self.clear_history(group);
        // The next processes serve the waiting gets.
        self.groups[group].forgotten = self.groups[group].queue.is_empty();
        self.changed(group);
    }

    /// Clears the group's failures, back-off and restart files.
    fn clear_history(&mut self, group: GroupId) {
        self.end_back_off(group);
        let g = &mut self.groups[group];
        (g.failures, g.last_error) = (0, false);
        g.reload_pending = false;
        g.seen.fill(None);
    }

    /// Closes the pool: fails waiting and later gets, and detaches every group.
    pub(crate) fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        if self.written(E32) {
            return;
        }
        let groups: Vec<GroupId> =
            (0..self.groups.len()).filter(|&g| self.groups[g].known).collect();
        for &group in &groups {
            self.resolve_all(group, Failure::Closed);
            self.detach_group_without_lock(group, Reason::Closed);
            self.clear_history(group);
        }
        for group in groups {
            self.changed(group);
        }
    }
}
