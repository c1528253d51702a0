//! The pseudocode's `checkout_without_lock` and `select_process`: chooses a process for a get.
//!
//! The pseudocode has a branch for a group with processes and one for an empty group. As ruled there is
//! one path. The get takes the least busy process with room, unless an earlier get waits. Otherwise it
//! joins the group's queue, and `settle` orders the spawn that the group needs. The pseudocode's branch
//! for an empty group spawns under the lock: `first_process` (E4 as written).
//!
//! Errata: E1 (an idle process), E4, E17 (the order of service), E19 (the queue's bound), E27 (back-off), E33 (the
//! choice), E35 (growth), E36 (the last session), E38 (the turn). Invariants: INV-EXACT-WAKE-UP, INV-WAIT-HAS-CAUSE,
//! INV-CONCURRENCY. Properties: PROP-CHOICE, PROP-GROWTH, PROP-LAST-SESSION, PROP-KEEPS-TURN.

use crate::application_pool::configuration::{ClientId, GroupId, OptionsId, ProcessId};
use crate::application_pool::pool::{
    At, Client, Condition, Event, Failure, Lock, Place, Pool, Reason, Spawn,
};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    pub(crate) fn checkout_without_lock(&mut self, client: ClientId, waits: bool, first: bool) {
        if self.closed {
            return self.fails(client, Failure::Closed);
        }
        let group = self.clients[client].group;
        self.group_of(client);
        self.groups[group].forgotten = false;
        self.changed(group);
        if (first || self.written(E24)) && self.needs_restart(client) {
            self.restart(group, self.options(group).restart_mode);
            if self.lock != Lock::Free {
                return; // E2 as written: the join never returns.
            }
        }
        if self.groups[group].back_off_until.is_some_and(|until| until <= self.now) {
            self.end_back_off(group);
        }

        if self.written(E4) && self.groups[group].processes.is_empty() {
            return self.first_process(client, waits);
        }
        // This overtakes no waiting get (E17): while one waits, no process of its group has room
        // (INV-EXACT-WAKE-UP).
        let Some(process) = self.select_process(group) else {
            return self.wait(client, waits);
        };
        let idle = self.process(process).sessions == 0;
        if !idle && (self.written(E35) || self.options(group).eager_growth) {
            // All processes are active: use one of them, and spawn another if allowed. As ruled, a group grows
            // when a get finds no process with room, and waits (E35).
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
        self.leaves_with_last_session(process);
    }

    /// Detaches the process if it has just been given its last session: it drains, and its place is free
    /// (E36). Returns whether it left.
    pub(crate) fn leaves_with_last_session(&mut self, process: ProcessId) -> bool {
        let leaves = !self.written(E36) && self.place(self.process(process)) == Place::Retiring;
        if leaves {
            self.detach_process(process, Reason::MaxRequests);
        }
        leaves
    }

    /// Returns the least busy process with room.
    ///
    /// Among idle processes this is the one freed last, among busy ones with equal sessions the one
    /// chosen first. With a global queue a busy process has no room.
    pub(crate) fn select_process(&self, group: GroupId) -> Option<ProcessId> {
        let first = *self.groups[group].processes.first()?;
        let has_room = matches!(self.place(self.process(first)), Place::Open(_) | Place::Marked);
        has_room.then_some(first)
    }

    /// Finds or makes the client's group, and gives it the options of this get. For a new group, the
    /// restart file that the get saw is the baseline (E23).
    pub(crate) fn group_of(&mut self, client: ClientId) {
        let Client { group, options, look, .. } = self.clients[client];
        self.find_group(group, options, look);
    }

    /// Asks for the minimum of the group's processes, without a get.
    pub(crate) fn pre_start(&mut self, group: GroupId) {
        if self.closed {
            return;
        }
        let look = self.files[self.options_brought(group).restart_dir];
        self.find_group(group, self.brought[group], look);
        self.groups[group].forgotten = false;
        self.changed(group);
    }

    fn find_group(&mut self, id: GroupId, options: OptionsId, look: Option<u64>) {
        let brought = self.config().options(id, options);
        let (dir, minimum) = (brought.restart_dir, brought.min_processes);
        let minimum_changes = self.options(id).min_processes != minimum;
        let (written_e4, written_e23) = (self.written(E4), self.written(E23));
        let group = &mut self.groups[id];
        group.options = options;
        // In the pseudocode a group is made when it has a process.
        if !group.known && !written_e4 {
            (group.known, group.detached) = (true, false);
            group.seen[dir] = (!written_e23).then_some(look);
        } else if minimum_changes {
            // With it, its evictable processes may change.
            self.tell_cleaner(self.next_due());
        }
    }

    fn wait(&mut self, client: ClientId, waits: bool) {
        let group = self.clients[client].group;
        let g = &self.groups[group];
        if g.is_out_of_order() && !self.written(E27) {
            // No process or spawn could serve this get.
            return self.fails(client, Failure::Spawn);
        }
        if !waits {
            // A later try finds the process that this one asks for.
            self.spawn_if_allowed(group);
            return self.fails(client, Failure::WouldBlock);
        }
        let queue = &self.groups[group].queue;
        let bound = self.options(group).max_queue;
        // A get that looks again was admitted before (E38).
        let admitted = self.clients[client].attempt > 1 && !self.written(E38);
        if bound > 0 && queue.len() >= bound && !admitted && !self.written(E19) {
            return self.fails(client, Failure::QueueFull);
        }
        let condition = match self.written(E17) {
            true => self.spawn_for_itself(group),
            false => Condition::GlobalQueue,
        };
        self.enqueue(client, condition);
    }

    fn enqueue(&mut self, client: ClientId, condition: Condition) {
        let Client { group, attempt, turn, waited, .. } = self.clients[client];
        let keeps_turn = attempt > 1 && !self.written(E38);
        let clients = &self.clients;
        let queue = &mut self.groups[group].queue;
        if !queue.contains(&client) {
            let later = queue.iter().position(|&other| keeps_turn && clients[other].turn > turn);
            queue.insert(later.unwrap_or(queue.len()), client);
            self.waiting += 1;
            self.totals.waited += u64::from(!waited);
        }
        self.clients[client].waited = true;
        self.clients[client].at = At::Waiting(condition);
        self.report(Event::Waits { client });
    }

    /// E17 as written: a get that must wait orders its own spawn, and chooses its condition.
    fn spawn_for_itself(&mut self, group: GroupId) -> Condition {
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

    /// E4 as written: the branch for a group without processes.
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
            return self.changed(group);
        }
        if !self.may_reserve() {
            self.evict_for(group);
        }
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
        self.report(Event::SpawnBegun { group, ticket, replaces: false });
        self.report(Event::LockHeld);
    }

    /// Evicts an idle process of another group for this one. Returns whether there was one.
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
        // During a restart, spawns are replacements.
        if quiet && g.outdated == 0 && self.spawning_allowed(group) {
            self.spawn_in_background(group, false);
        }
    }

    /// Opens a session of the process.
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
        // The pseudocode's move_to_back.
        self.insert(process, End::Back);
    }

    /// Inserts a process into its group's list, before or behind those of equal rank (E33).
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

/// The end at which a process joins those of equal rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The pseudocode's `move_to_front`.
    Front,
    /// The pseudocode's `move_to_back`.
    Back,
}
