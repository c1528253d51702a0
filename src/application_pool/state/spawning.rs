//! Spawns processes in the background, under the lock: the pseudocode's `spawn_in_background`, and what becomes of a new
//! process. A number such as `E4` names an error of that pseudocode (`spec/src/application_pool/rules.rs`).
//!
//! The capacity of a spawn is reserved before it starts (E3). A [`SpawnOrder`] carries the reservation from the critical
//! section that makes it, by the thread that spawns (`work/spawner_thread.rs`), to the one that ends it.

use super::effects::{Effect, Effects};
use super::entry::{Entry, Home};
use super::group::{Edge, Group, Spawning};
use super::process_info::{Place, ProcessInfo};
use super::spawn_order::{Kind, SpawnOrder};
use super::state::State;
use super::table_keys::GroupKey;
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::event::{DetachReason, Event};
use crate::application_pool::api::spawner::{CancelToken, Spawner};
use crate::kernel::collections::list::Links;
use crate::kernel::sync::{Arc, Flag};
use crate::kernel::user_code::SlowDrop;
use std::num::NonZeroUsize;

/// A new process that is ready, with the concurrency and the pid that it reports.
pub(crate) struct NewProcess<S: Spawner> {
    pub(crate) process: SlowDrop<S::Process>,
    pub(crate) concurrency: Option<NonZeroUsize>,
    pub(crate) pid: Option<u32>,
    /// Its pool.
    pub(crate) home: Box<dyn Home<S>>,
}

impl<S: Spawner> State<S> {
    /// The pseudocode's `spawn_in_background`: reserves capacity, and orders the spawn.
    /// Precondition: the group is not spawning.
    pub(crate) fn start_spawn(&mut self, key: GroupKey, kind: Kind, fx: &mut Effects<S>) {
        self.leave_want(key);
        // Only the end of the spawn gives this reservation back (INV-RESERVED).
        match kind {
            Kind::Addition => self.reserved += 1,
            Kind::Replacement => self.replacing += 1,
        }
        let ticket = self.new_identifier();
        let cancel = CancelToken::new();
        let group = self.group_mut(key);
        debug_assert!(group.spawning.is_none());
        group.spawning = Some(Spawning { ticket, cancel: cancel.clone() });
        group.spawns_in_flight += 1;
        self.in_flight.insert(ticket, false);
        let group = &self.groups[key];
        fx.push(Effect::Spawn(SpawnOrder {
            group: key,
            ticket,
            kind,
            options: group.options.clone(),
            cancel,
            reload: group.reload_pending || group.reloads_first,
        }));
    }

    /// Ends a spawn: gives its reservation back, and attaches its process or reports its error.
    /// Returns the next order for the group, which the same thread carries out.
    pub(crate) fn spawn_has_ended(
        &mut self,
        order: &SpawnOrder,
        result: Result<NewProcess<S>, SpawnError>,
        fx: &mut Effects<S>,
    ) -> Option<SpawnOrder> {
        let key = order.group;
        let has_failed = self.in_flight.remove(&order.ticket) == Some(true);
        match order.kind {
            Kind::Addition => self.reserved -= 1,
            Kind::Replacement => self.replacing -= 1,
        }
        let group = self.group_mut(key);
        group.spawns_in_flight -= 1;
        let wanted = group.spawning.as_ref().is_some_and(|s| s.ticket == order.ticket);
        if wanted {
            // The group's spawn is no longer in flight (INV-SPAWNING).
            group.spawning = None;
        }
        match result {
            // An earlier section has cancelled this spawn and settled the group. The late process is only shut
            // down, and a late error only dropped (errata E2, E12: PROP-NO-ORPHAN).
            Ok(new) if !wanted => self.discard(order, new, DetachReason::Unwanted, fx),
            Err(error) if !wanted => fx.push(Effect::DropError(error)),
            Ok(new) if has_failed => {
                let failures = self.group(key).failures;
                self.discard(order, new, DetachReason::Failed, fx);
                self.died_early(key, failures, fx);
            }
            Ok(new) => self.attach_if_room(order, new, fx),
            Err(error) => self.spawn_has_failed(key, error, fx),
        }
        // The thread of this spawn carries the next one out.
        self.settle(fx);
        let next = fx.take_order(key);
        self.notify_if_ended(fx);
        next
    }

    /// Attaches the process: a replacement in exchange for an outdated process, any other one only if there is
    /// room. Otherwise shuts it down.
    fn attach_if_room(&mut self, order: &SpawnOrder, new: NewProcess<S>, fx: &mut Effects<S>) {
        let key = order.group;
        let group = self.group(key);
        let replaces = order.kind == Kind::Replacement && group.outdated > 0;
        // max or max_per_app may have been lowered meanwhile (erratum E3).
        let room = self.count + self.reserved < self.max
            && self.max_per_app.is_none_or(|max| group.size < max);
        let failures = self.spawn_has_succeeded(key, fx);
        if replaces {
            // In this order the group always has a process (PROP-ROLLING).
            self.attach(order, new, failures, fx);
            let oldest = self.group(key).by_age.front().expect("an outdated process");
            self.detach_process(oldest, DetachReason::Restarted, fx);
        } else if room {
            self.attach(order, new, failures, fx);
        } else {
            self.discard(order, new, DetachReason::Unwanted, fx);
        }
    }

    /// Shuts down a new process that is not attached. It is counted and reported like any other (INV-TOTALS).
    fn discard(
        &mut self,
        order: &SpawnOrder,
        new: NewProcess<S>,
        reason: DetachReason,
        fx: &mut Effects<S>,
    ) {
        self.totals.spawned += 1;
        self.totals.detached += 1;
        self.totals.unwanted += 1;
        let (group, identifier, pid) = (&self.group(order.group).name, order.ticket, new.pid);
        fx.event(|| Event::Spawned { group: group.clone(), identifier, pid });
        fx.event(|| Event::Detached { group: group.clone(), identifier, pid, reason });
        fx.push(Effect::Unwanted(new.process));
    }

    fn attach(
        &mut self,
        order: &SpawnOrder,
        new: NewProcess<S>,
        failures_before: u32,
        fx: &mut Effects<S>,
    ) {
        self.totals.spawned += 1;
        let NewProcess { process, concurrency, pid, home } = new;
        let begun = fx.begun();
        let concurrency = concurrency.map(usize::from);
        let key = self.processes.next_key();
        let now = self.clock.now();
        let group = self.groups.touch(order.group);
        self.processes.insert(ProcessInfo {
            entry: Arc::new(Entry {
                process,
                identifier: order.ticket,
                pid,
                key,
                gone: Flag::new(false),
                begun: begun.clone(),
                home,
            }),
            // The process records its group here, and is added to that group's list below (INV-GROUP-NAME).
            group: order.group,
            start_time: now,
            // Its idle time begins now (erratum E5: PROP-IDLE-TIME).
            last_used: now,
            idle_rank: 0,
            sessions: 0,
            processed: 0,
            concurrency: if order.options.use_global_queue() { Some(1) } else { concurrency },
            max_requests: order.options.max_requests(),
            failures_before: Some(failures_before),
            generation: group.generation,
            place: Place::Open(0),
            enabled: true,
            marked: false,
            drain_deadline: now,
            in_group: Links::default(),
            by_age: Links::default(),
            leaving: Links::default(),
        });
        self.by_identifier.insert(order.ticket, key);
        group.processes.insert(&mut self.processes, key, Edge::Front);
        group.by_age.push_back(&mut self.processes, key);
        group.size += 1;
        group.idle += 1;
        let name = &group.name;
        fx.begins(begun.as_ref(), || Event::Spawned {
            group: name.clone(),
            identifier: order.ticket,
            pid,
        });
        self.becomes_idle(key);
        // The count grows in the same section as the group's size, so the size never exceeds the count
        // (INV-SIZE-WITHIN-COUNT).
        self.mutate_count(self.count + 1);
        // At once, as where a process leaves.
        self.refresh(order.group, fx);
    }

    /// Ends the group's count of failures, and returns it.
    fn spawn_has_succeeded(&mut self, key: GroupKey, fx: &mut Effects<S>) -> u32 {
        let group = self.group_mut(key);
        group.reload_pending = false;
        group.reloads_first = false;
        // Another process may have failed early meanwhile. The group then backs off, with that error (INV-BACK-OFF).
        if group.back_off_until.is_some() {
            return group.failures;
        }
        if let Some(error) = group.last_error.take() {
            fx.push(Effect::DropError(error));
        }
        std::mem::take(&mut group.failures)
    }
}

impl Group {
    /// Whether a restart is under way.
    pub(crate) fn is_restarting(&self) -> bool {
        self.reload_pending || self.outdated > 0
    }
}
