//! Spawns processes in the background: `spawn_in_background` and `spawner_thread_callback` of Passenger's
//! pseudocode. A number such as `E4` names an error of that pseudocode (`spec/src/application_pool/rules.rs`).
//!
//! Every spawn runs on a thread of its own, even the first one of a group (erratum E4). Its capacity is
//! reserved before it starts (E3). A [`SpawnOrder`] carries the reservation from the critical section that
//! makes it to the one that ends it. A [`Reservation`] guards it on the way, and gives it back after an error,
//! a panic, or a failure to start the thread (E11).

use super::effects::{Effect, Effects};
use super::entry::Entry;
use super::error::SpawnError;
use super::event::{DetachReason, Event};
use super::group::{Edge, Group, Spawning};
use super::inner::Inner;
use super::process_info::{Place, ProcessInfo};
use super::spawn_order::{Kind, SpawnOrder};
use super::spawner::{CancelToken, Process, ShutDown, SpawnRequest, Spawner};
use super::state::State;
use super::table_keys::GroupKey;
use crate::kernel::at_work::AtWork;
use crate::kernel::collections::list::Links;
use crate::kernel::section::Guarded;
use crate::kernel::sync::{Arc, Flag, has_failed, thread};
use crate::kernel::user_code::{SlowDrop, contain};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// A new process that is ready, with the concurrency and the pid that it reports.
pub(crate) struct NewProcess<P: Send + 'static> {
    process: SlowDrop<P>,
    concurrency: Option<NonZeroUsize>,
    pid: Option<u32>,
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
    fn spawn_has_ended(
        &mut self,
        pool: &std::sync::Arc<Inner<S>>,
        order: &SpawnOrder,
        result: Result<NewProcess<S::Process>, SpawnError>,
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
            Ok(new) => self.attach_if_room(pool, order, new, fx),
            Err(error) => self.spawn_has_failed(key, error, fx),
        }
        self.settle(key, fx);
        let next = fx.take_order(key);
        self.notify_if_ended(fx);
        next
    }

    /// Attaches the process: a replacement in exchange for an outdated process, any other one only if there is
    /// room. Otherwise shuts it down.
    fn attach_if_room(
        &mut self,
        pool: &std::sync::Arc<Inner<S>>,
        order: &SpawnOrder,
        new: NewProcess<S::Process>,
        fx: &mut Effects<S>,
    ) {
        let key = order.group;
        let group = self.group(key);
        let replaces = order.kind == Kind::Replacement && group.outdated > 0;
        // max or max_per_app may have been lowered meanwhile (erratum E3).
        let room = self.count + self.reserved < self.max
            && self.max_per_app.is_none_or(|max| group.size < max);
        let failures = self.spawn_has_succeeded(key, fx);
        if replaces {
            // In this order the group always has a process (PROP-ROLLING).
            self.attach(pool, order, new, failures, fx);
            let oldest = self.group(key).by_age.front().expect("an outdated process");
            self.detach_process(oldest, DetachReason::Restarted, fx);
        } else if room {
            self.attach(pool, order, new, failures, fx);
        } else {
            self.discard(order, new, DetachReason::Unwanted, fx);
        }
    }

    /// Shuts down a new process that is not attached. It is counted and reported like any other (INV-TOTALS).
    fn discard(
        &mut self,
        order: &SpawnOrder,
        new: NewProcess<S::Process>,
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
        pool: &std::sync::Arc<Inner<S>>,
        order: &SpawnOrder,
        new: NewProcess<S::Process>,
        failures_before: u32,
        fx: &mut Effects<S>,
    ) {
        self.totals.spawned += 1;
        let NewProcess { process, concurrency, pid } = new;
        let begun = fx.begun();
        let concurrency = concurrency.map(usize::from);
        let key = self.processes.next_key();
        let now = self.clock.now();
        let group = &mut self.groups[order.group];
        self.processes.insert(ProcessInfo {
            entry: Arc::new(Entry {
                process,
                identifier: order.ticket,
                pid,
                key,
                gone: Flag::new(false),
                begun: begun.clone(),
                pool: pool.clone(),
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

/// Guards the reservation of an order until its spawn has ended.
struct Reservation<S: Spawner> {
    pool: std::sync::Arc<Inner<S>>,
    order: Option<SpawnOrder>,
}

impl<S: Spawner> Reservation<S> {
    fn end(&mut self, result: Result<NewProcess<S::Process>, SpawnError>) -> Option<SpawnOrder> {
        let order = self.order.take()?;
        let pool = &self.pool;
        pool.critical(|state, fx| state.spawn_has_ended(pool, &order, result, fx))
    }
}

impl<S: Spawner> Drop for Reservation<S> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        if let Some(next) = self.end(Err(SpawnError::new("the spawner thread was lost"))) {
            self.pool.start_spawner_thread(next);
        }
    }
}

impl<S: Spawner> Inner<S> {
    /// Starts the thread that carries out the order. A thread that cannot be started is a spawn error like any other
    /// (erratum E11).
    pub(crate) fn start_spawner_thread(self: &std::sync::Arc<Self>, order: SpawnOrder) {
        let mut order = Some(order);
        while let Some(this) = order {
            order = self.try_to_start_spawner_thread(this);
        }
    }

    /// Starts one thread. If it cannot be started, ends the spawn with an error, and returns the group's next
    /// order, if any.
    fn try_to_start_spawner_thread(
        self: &std::sync::Arc<Self>,
        order: SpawnOrder,
    ) -> Option<SpawnOrder> {
        let name = format!("cabrank spawner {}", order.ticket);
        let reservation = Reservation { pool: self.clone(), order: Some(order) };
        // A thread that cannot be started drops its closure. The reservation stays in the slot, and is ended below.
        let slot = std::sync::Arc::new(Mutex::new(Some(reservation)));
        let theirs = slot.clone();
        let started = thread::start(&name, self.spawner_stack_size, move || {
            let taken = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(reservation) = taken {
                spawner_thread_callback(reservation);
            }
        });
        let error = started.err()?;
        let mut reservation = slot.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let error = format!("the spawner thread could not be started: {error}");
        reservation.end(Err(SpawnError::new(error)))
    }
}

/// Spawns until the group needs no more processes.
fn spawner_thread_callback<S: Spawner>(mut reservation: Reservation<S>) {
    let pool = reservation.pool.clone();
    let _at_work = AtWork::begin(&*pool);
    while let Some(order) = &reservation.order {
        let result = pool.spawn(order);
        reservation.order = reservation.end(result);
    }
}

impl<S: Spawner> Inner<S> {
    /// Runs the spawner, which is user code, without the lock: while it hangs, sessions can be closed
    /// (PROP-CLOSE-POSSIBLE).
    fn spawn(&self, order: &SpawnOrder) -> Result<NewProcess<S::Process>, SpawnError> {
        let request = SpawnRequest {
            identifier: order.ticket,
            options: order.options.clone(),
            cancel: order.cancel.clone(),
        };
        let spawned = contain(|| {
            if order.reload {
                self.spawner.reload(&order.options);
            }
            self.spawner.spawn(&request)
        });
        let process = match spawned {
            Ok(spawned) => SlowDrop::new(spawned?),
            Err(panic) => return Err(SpawnError::new(format!("the spawner panicked: {panic}"))),
        };
        match contain(|| (process.concurrency(), process.pid())) {
            Ok((concurrency, pid)) => Ok(NewProcess { process, concurrency, pid }),
            Err(panic) => {
                // The process lives, and only this call can shut it down.
                let _ = contain(|| process.shut_down(ShutDown::Drained));
                Err(SpawnError::new(format!("the process panicked: {panic}")))
            }
        }
    }
}
