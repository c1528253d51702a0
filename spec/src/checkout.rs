//! The text's `checkout_without_lock` and `select_process`: chooses a process for a get.
//!
//! The text has two branches: the group has processes, or it has none. As ruled there is one path: the
//! least busy process with room, if nobody is before us; else a place in the group's queue, and what
//! the group needs is seen to by `settle`. The text's second branch, which spawns
//! under the lock, is `first_process` (E4 as written).
//!
//! Errata: E1 (what an idle process changes), E4, E17 (who comes first), E19 (the bound of the queue),
//! E27 (a group that backs off), E33 (the choice). Invariants: INV-EXACT-WAKE-UP,
//! INV-WAIT-HAS-CAUSE, INV-CONCURRENCY; PROP-CHOICE.

use crate::configuration::{ClientId, GroupId, ProcessId};
use crate::pool::{At, Client, Condition, Event, Failure, Lock, Place, Pool, Reason, Spawn};
use crate::rules::Erratum::*;

impl Pool {
    pub(crate) fn checkout_without_lock(&mut self, client: ClientId, waits: bool, first: bool) {
        if self.closed {
            return self.fails(client, Failure::Closed);
        }
        let group = self.clients[client].group;
        self.group_of(client);
        self.groups[group].forgotten = false;
        if (first || self.written(E24)) && self.needs_restart(client) {
            self.restart(group);
            if self.lock != Lock::Free {
                return; // E2 as written: it does not come back from there.
            }
        }
        if self.groups[group].back_off_until.is_some_and(|until| until <= self.now) {
            self.end_back_off(group);
            self.settle(group);
        }

        if self.written(E4) && self.groups[group].processes.is_empty() {
            return self.first_process(client, waits);
        }
        // Nobody is overtaken (E17): while a get waits, no process of its group has room
        // (INV-EXACT-WAKE-UP).
        let Some(process) = self.select_process(group) else {
            return self.wait(client, waits);
        };
        let idle = self.process(process).sessions == 0;
        if !idle {
            // All are active. We use one of them, and spawn an extra process if we may.
            self.spawn_if_allowed(group);
        }
        let active = self.active;
        self.open_session(process);
        if idle && self.written(E1) {
            self.active = active;
            self.mutate_max((active + 1).max(0) as usize);
        }
        self.refresh(group);
        self.serve(client, process);
    }

    /// The least busy process with room: an idle one, most recently freed first; or else the one
    /// with the fewest sessions, least recently chosen first. With a global queue a busy process has no
    /// room.
    pub(crate) fn select_process(&self, group: GroupId) -> Option<ProcessId> {
        let first = *self.groups[group].processes.first()?;
        matches!(self.place(self.process(first)), Place::Open(_)).then_some(first)
    }

    /// The group is made, if there is none: what was seen of its restart file is the baseline (E23). If
    /// there is, it has the options of this get from now on.
    fn group_of(&mut self, client: ClientId) {
        let Client { group: id, options, look, .. } = self.clients[client];
        let dir = self.config().options(id, options).restart_dir;
        let (written_e4, written_e23) = (self.written(E4), self.written(E23));
        let group = &mut self.groups[id];
        let others = std::mem::replace(&mut group.options, options) != options;
        // In the text a group is made when it has a process.
        if !group.known && !written_e4 {
            (group.known, group.detached) = (true, false);
            group.seen[dir] = (!written_e23).then_some(look);
        } else if others {
            // The minimum may have changed: others may be needed, or be evictable.
            self.settle(id);
        }
    }

    fn wait(&mut self, client: ClientId, waits: bool) {
        let group = self.clients[client].group;
        let g = &self.groups[group];
        if g.size == 0 && g.back_off_until.is_some() && !self.written(E27) {
            // Nothing that is under way could serve it.
            return self.fails(client, Failure::Spawn);
        }
        if !waits {
            // A later try will find what this one asked for.
            self.spawn_if_allowed(group);
            self.settle(group);
            return self.fails(client, Failure::WouldBlock);
        }
        let queue = &self.groups[group].queue;
        let bound = self.options(group).max_queue;
        if bound > 0 && queue.len() >= bound && !self.written(E19) {
            return self.fails(client, Failure::QueueFull);
        }
        let condition = match self.written(E17) {
            true => self.look_after_oneself(group),
            false => Condition::GlobalQueue,
        };
        self.enqueue(client, condition);
        if self.written(E17) {
            return;
        }
        self.settle(group);
    }

    fn enqueue(&mut self, client: ClientId, condition: Condition) {
        let queue = &mut self.groups[self.clients[client].group].queue;
        if !queue.contains(&client) {
            queue.push(client);
            self.waiting += 1;
            self.totals.waited += 1;
        }
        self.clients[client].at = At::Waiting(condition);
        self.tell(Event::Waits { client });
    }

    /// E17 as written: a get that must wait begins the spawn that it needs, and waits to be woken.
    fn look_after_oneself(&mut self, group: GroupId) -> Condition {
        if self.groups[group].size > 0 {
            self.spawn_if_allowed(group);
        } else if self.groups[group].spawning.is_none() {
            if !self.may_reserve() && !self.evict_for(group) {
                return Condition::NewGroup;
            }
            self.spawn_if_allowed(group);
        }
        Condition::GlobalQueue
    }

    /// E4 as written: the text's branch for a group without processes.
    fn first_process(&mut self, client: ClientId, waits: bool) {
        let group = self.clients[client].group;
        let full = match self.written(E3) {
            true => self.active >= self.max as isize,
            false => !self.may_reserve() && self.victim().is_none(),
        };
        if full || self.groups[group].spawning.is_some() {
            if !waits {
                return self.fails(client, Failure::WouldBlock);
            }
            self.enqueue(client, Condition::NewGroup);
            return self.settle(group);
        }
        if !self.may_reserve() {
            self.evict_for(group);
        }
        // A detached group that is found by a name that is not its own (E6 as written) is no group.
        self.last_identifier += 1;
        let ticket = self.last_identifier;
        if !self.written(E3) {
            self.reserved += 1;
        }
        let options = self.groups[group].options;
        let under_lock = Some(client);
        self.spawns.push(Spawn { group, options, ticket, replaces: false, under_lock });
        self.clients[client].at = At::Spawning;
        self.lock = Lock::Spawning(client);
        self.tell(Event::SpawnBegun { group, ticket, replaces: false });
        self.tell(Event::LockHeld);
    }

    /// Detaches an idle process of another group for this one. Says whether there was one.
    pub(crate) fn evict_for(&mut self, group: GroupId) -> bool {
        let Some(victim) = self.victim() else { return false };
        let loser = self.process(victim).group;
        self.detach_process(victim, Reason::Evicted(Some(group)));
        self.reconsider(loser);
        true
    }

    pub(crate) fn spawn_if_allowed(&mut self, group: GroupId) {
        let g = &self.groups[group];
        let backs_off = g.back_off_until.is_some() && !self.written(E27);
        let quiet = g.spawning.is_none() && !backs_off;
        // While a restart is under way, what is spawned replaces what is old.
        if quiet && g.outdated == 0 && self.spawning_allowed(group) {
            self.spawn_in_background(group, false);
        }
    }

    /// Counts one more session of the process.
    pub(crate) fn open_session(&mut self, process: ProcessId) {
        let group = self.process(process).group;
        self.remove(process);
        let info = self.process_mut(process);
        info.sessions += 1;
        if info.sessions == 1 {
            self.groups[group].idle -= 1;
            self.inactive_apps.retain(|&p| p != process);
            self.mutate_active(self.active + 1);
        }
        // The text's move_to_back.
        self.insert(process, End::Back);
    }

    /// Puts a process into its group's list, behind or before those that rank as it does (E33).
    pub(crate) fn insert(&mut self, process: ProcessId, end: End) {
        let info = self.process(process);
        let (group, place) = (info.group, self.place(info));
        let before = |&other: &ProcessId| {
            let other = self.place(self.process(other));
            other < place || other == place && end == End::Back
        };
        let at = self.groups[group].processes.partition_point(before);
        self.groups[group].processes.insert(at, process);
    }
    pub(crate) fn remove(&mut self, process: ProcessId) {
        let group = self.process(process).group;
        self.groups[group].processes.retain(|&p| p != process);
    }
}

/// Which end of its equals a process goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The text's `move_to_front`.
    Front,
    /// The text's `move_to_back`.
    Back,
}
