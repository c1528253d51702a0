//! The text's `mutate_active`, `mutate_count` and `mutate_max`, and who is told.
//!
//! In the text a mutator wakes everybody who might be able to proceed, and each looks again. As ruled a
//! number only changes, and every action ends with `settle`, which hands what has
//! become available to whoever has waited for it longest (E17): first the group's own gets, then the
//! groups that want capacity.
//!
//! Errata: E17, E20 (what raising a limit does). Invariants: INV-COUNT, INV-ACTIVE,
//! INV-EXACT-WAKE-UP, INV-WANT; PROP-NO-OVERTAKING.

use crate::configuration::{GroupId, ProcessId};
use crate::pool::{At, Condition, Event, Failure, Lock, Place, Pool, Want};
use crate::rules::Erratum::*;

impl Pool {
    pub(crate) fn mutate_active(&mut self, value: isize) {
        if value < self.active && self.written(E17) {
            self.notify_all(Condition::NewGroup);
            self.notify_all(Condition::GlobalQueue);
        }
        self.active = value;
    }

    pub(crate) fn mutate_count(&mut self, value: usize) {
        if self.written(E17) {
            self.notify_all(Condition::GlobalQueue);
        }
        self.count = value;
    }

    /// Raising it wakes who can proceed.
    pub(crate) fn mutate_max(&mut self, value: usize) {
        if value == 0 && !self.written(E19) {
            return; // Refused.
        }
        if value > self.max && self.written(E17) {
            self.notify_all(Condition::NewGroup);
            self.notify_all(Condition::GlobalQueue);
        }
        self.max = value;
        self.new_app_group_creatable();
    }

    /// The text has no such function (E20).
    pub(crate) fn mutate_max_per_app(&mut self, value: usize) {
        self.max_per_app = value;
        if self.written(E20) {
            return;
        }
        // Who was capped and is no more leaves this line; who still is goes back to it.
        for _ in 0..self.capped.len() {
            let Some(&group) = self.capped.first() else { break };
            self.leave_want(group);
            self.reconsider(group);
        }
        self.new_app_group_creatable();
    }

    /// E17 as written: all who wait for this are woken, and look again when their turn for the lock
    /// comes. In `queue` they stay, where it can be seen who came first.
    fn notify_all(&mut self, condition: Condition) {
        for client in 0..self.clients.len() {
            if self.clients[client].at == At::Waiting(condition) {
                self.clients[client].at = At::Again;
                self.tell(Event::Woken { client });
            }
        }
    }

    /// Gives everybody who can now proceed what they wait for.
    pub(crate) fn settle(&mut self, group: GroupId) {
        if self.lock != Lock::Free {
            return; // E2, E4 as written: whoever holds the lock does not come so far.
        }
        self.refresh(group);
        self.global_queue_position_became_available(group);
        self.reconsider(group);
        self.new_app_group_creatable();
        self.forget_if_unused(group);
    }

    /// Hands sessions to the gets that wait for this group, oldest first, while a process has room.
    pub(crate) fn global_queue_position_became_available(&mut self, group: GroupId) {
        if self.written(E17) {
            return;
        }
        while let Some(&client) = self.groups[group].queue.first()
            && let Some(process) = self.select_process(group)
        {
            self.open_session(process);
            self.serve(client, process);
            self.refresh(group);
        }
    }

    /// Puts the group into the line of those that wait for what it now wants.
    pub(crate) fn reconsider(&mut self, group: GroupId) {
        let g = &self.groups[group];
        if g.size == 0 && g.back_off_until.is_some() && !self.written(E27) {
            // A group that backs off and has no process has nothing to wait for.
            self.resolve_all(group, Failure::Spawn);
        }
        let want = self.wants(group);
        if want != self.groups[group].want {
            self.leave_want(group);
            self.groups[group].want = want;
            if let Some(line) = self.line(want) {
                line.push(group);
            }
        }
    }

    pub(crate) fn leave_want(&mut self, group: GroupId) {
        let want = std::mem::take(&mut self.groups[group].want);
        if let Some(line) = self.line(want) {
            line.retain(|&g| g != group);
        }
    }

    fn line(&mut self, want: Want) -> Option<&mut Vec<GroupId>> {
        match want {
            Want::Nothing => None,
            Want::First => Some(&mut self.first),
            Want::More => Some(&mut self.more),
            Want::Replacement => Some(&mut self.replacements),
            Want::Capped => Some(&mut self.capped),
        }
    }

    /// Tells all gets that wait for this group why they fail.
    pub(crate) fn resolve_all(&mut self, group: GroupId, why: Failure) {
        while let Some(&client) = self.groups[group].queue.first() {
            self.fails(client, why);
        }
    }

    /// Recounts by how many processes that could be condemned the group is above its minimum. Who
    /// comes to a number later stands behind those who have it.
    pub(crate) fn refresh(&mut self, group: GroupId) {
        let g = &self.groups[group];
        let retires = |&&p: &&ProcessId| self.place(self.process(p)) == Place::Retiring;
        let staying = g.processes.len() - g.processes.iter().filter(retires).count();
        let above = staying.saturating_sub(self.options(group).min_processes);
        let surplus = (staying > 0).then_some(above);
        if surplus != g.surplus {
            self.by_surplus.retain(|&other| other != group);
            if surplus.is_some() {
                self.by_surplus.push(group);
            }
            self.groups[group].surplus = surplus;
        }
    }

    /// Removes what is remembered of a group that was detached and that nothing needs any more.
    fn forget_if_unused(&mut self, group: GroupId) {
        let g = &self.groups[group];
        let drains = self.draining.iter().any(|&p| self.process(p).group == group);
        let spawns = self.spawns.iter().any(|spawn| spawn.group == group);
        if !g.forgotten || g.size > 0 || drains || spawns || !g.queue.is_empty() {
            return;
        }
        self.leave_want(group);
        self.end_back_off(group);
        let g = &mut self.groups[group];
        (g.known, g.detached) = (false, true);
        (g.options, g.failures, g.last_error, g.generation) = (0, 0, false, 0);
        g.seen.fill(None);
        (g.reload_pending, g.outdated, g.forgotten) = (false, 0, false);
    }
}
