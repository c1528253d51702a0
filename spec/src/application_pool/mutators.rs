//! The pseudocode's `mutate_active`, `mutate_count` and `mutate_max`, and the wake-ups.
//!
//! In the pseudocode a mutator wakes every client that might proceed, and each looks again. As ruled a
//! mutator only changes the number. Every action ends with `settle`, which grants sessions and capacity
//! in order of arrival (E17), for the groups that it has changed. A group's own gets come first, then the groups that want
//! capacity.
//!
//! Errata: E17, E20 (raising a limit). Invariants: INV-COUNT, INV-ACTIVE, INV-EXACT-WAKE-UP, INV-WANT.
//! Properties: PROP-NO-OVERTAKING.

use crate::application_pool::configuration::{GroupId, ProcessId};
use crate::application_pool::pool::{At, Condition, Event, Failure, Lock, Place, Pool, Want};
use crate::application_pool::rules::Erratum::*;

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

    /// Sets `max`. Raising it lets waiting groups spawn.
    pub(crate) fn mutate_max(&mut self, value: usize) {
        if value == 0 && !self.written(E19) {
            return; // Refused.
        }
        if value > self.max && self.written(E17) {
            self.notify_all(Condition::NewGroup);
            self.notify_all(Condition::GlobalQueue);
        }
        self.max = value;
        self.pool_changed = true;
    }

    /// Sets `max_per_app`. The pseudocode has no such function (E20).
    pub(crate) fn mutate_max_per_app(&mut self, value: usize) {
        self.max_per_app = value;
        if self.written(E20) {
            return;
        }
        self.pool_changed = true;
        // A group that is still capped goes back to this line; any other leaves it.
        for _ in 0..self.capped.len() {
            let Some(&group) = self.capped.first() else { break };
            self.leave_want(group);
            self.changed(group);
        }
    }

    /// E17 as written: wakes every client that waits for this condition; each looks again when it has
    /// the lock. The clients stay in `queue`, which shows the order of arrival.
    fn notify_all(&mut self, condition: Condition) {
        for client in 0..self.clients.len() {
            if self.clients[client].at == At::Waiting(condition) {
                self.clients[client].at = At::Again;
                self.report(Event::Woken { client });
            }
        }
    }

    /// Notes that a group has changed. The end of the action settles it.
    pub(crate) fn changed(&mut self, group: GroupId) {
        if !self.changed.contains(&group) {
            self.changed.push(group);
        }
    }

    /// Grants sessions and capacity to every get and group that can now proceed, after the changes so far.
    pub(crate) fn settle(&mut self) {
        if self.lock != Lock::Free {
            self.changed.clear();
            self.pool_changed = false;
            return; // E2, E4 as written: the holder of the lock does not get this far.
        }
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() && !std::mem::take(&mut self.pool_changed) {
            return;
        }
        self.pool_changed = false;
        for &group in &changed {
            self.refresh(group);
            self.global_queue_position_became_available(group);
            self.reconsider(group);
        }
        self.new_app_group_creatable();
        for group in changed {
            self.forget_if_unused(group);
        }
    }

    /// Grants sessions to the gets that wait for this group, oldest first, while a process has room.
    pub(crate) fn global_queue_position_became_available(&mut self, group: GroupId) {
        if self.written(E17) {
            return;
        }
        while let Some(&client) = self.groups[group].queue.first()
            && let Some(process) = self.select_process(group)
        {
            self.was_served(group);
            self.open_session(process);
            self.serve(client, process);
            // The caller grants the place that this frees.
            self.leaves_with_last_session(process);
            self.refresh(group);
        }
    }

    /// Moves the group behind those whose gets have waited longer for one more process (E37).
    fn was_served(&mut self, group: GroupId) {
        if self.groups[group].want == Want::More && !self.written(E37) {
            self.leave_want(group);
            self.enter(Want::More, group);
        }
    }

    /// Moves the group to the line of its present want.
    pub(crate) fn reconsider(&mut self, group: GroupId) {
        let g = &self.groups[group];
        if g.is_out_of_order() && !self.written(E27) {
            // A group that backs off without a process or spawn cannot serve a waiting get.
            self.resolve_all(group, Failure::Spawn);
        }
        let want = self.wants(group);
        if want != self.groups[group].want {
            self.leave_want(group);
            self.enter(want, group);
        }
    }

    fn enter(&mut self, want: Want, group: GroupId) {
        self.groups[group].want = want;
        self.groups[group].room_due = self.now + self.config().drain_timeout;
        if let Some(line) = self.line(want) {
            line.push(group);
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
            Want::Minimum => Some(&mut self.minimum),
            Want::Replacement => Some(&mut self.replacements),
            Want::Capped => Some(&mut self.capped),
        }
    }

    /// Fails all gets that wait for this group.
    pub(crate) fn resolve_all(&mut self, group: GroupId, why: Failure) {
        while let Some(&client) = self.groups[group].queue.first() {
            self.fails(client, why);
        }
    }

    /// Recounts the group's surplus: how many processes that may be marked for eviction it has above its
    /// minimum. Among groups with equal surplus, the one that reached it first comes first.
    pub(crate) fn refresh(&mut self, group: GroupId) {
        let g = &self.groups[group];
        let retires = |&&p: &&ProcessId| self.place(self.process(p)) >= Place::Retiring;
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

    /// Removes a group that was detached by name and is unused.
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
