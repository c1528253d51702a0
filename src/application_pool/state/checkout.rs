//! Chooses a process for a get (one call of `get`). This is `checkout_without_lock` of Passenger's pseudocode.

use super::effects::Effects;
use super::ending::Ending;
use super::entry::Entry;
use super::group::Edge;
use super::look::{LastSeen, Look};
use super::looks::Looked;
use super::spawn_order::Kind;
use super::state::State;
use super::table_keys::{GroupKey, ProcessKey};
use crate::application_pool::api::error::GetError;
use crate::application_pool::api::event::DetachReason;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::Spawner;
use crate::kernel::clock::Time;
use crate::kernel::collections::wait_queue::WaiterKey;
use crate::kernel::section::Patience;
use crate::kernel::sync::Arc;

/// The answer of one critical section to a get.
pub(crate) enum Checkout<S: Spawner> {
    /// A session of this process, counted already.
    Serve(Arc<Entry<S>>),
    /// The get waits in the group's queue, as this waiter.
    Wait {
        group: GroupKey,
        waiter: WaiterKey,
    },
    Fail(GetError),
}

/// The state that a get keeps from one attempt to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempts {
    /// The order of arrival; absent before the first attempt.
    pub(crate) ticket: Option<u64>,
    /// Whether the get has waited. It counts once, however often it waits.
    waited: bool,
    /// When its time in the queue ends. A get that waits again does not get more.
    queued_until: Option<Time>,
}

impl<S: Spawner> State<S> {
    /// Carries out the first attempt of a get.
    #[inline]
    pub(crate) fn checkout_first(
        &mut self,
        options: &PoolOptions,
        looked: Option<&Looked>,
        attempts: &mut Attempts,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        match self.look_of(options, looked, fx) {
            Ok(look) => self.checkout_without_lock(options, look, attempts, patience, fx),
            Err(error) => Checkout::Fail(error),
        }
    }

    /// Serves the get, refuses it, or puts it into its group's queue.
    ///
    /// `look` is a look at the restart files, made without the lock. Only the first attempt of a get may restart
    /// the group because of it (erratum E24: PROP-RESTART-ONCE). A group that is new takes it as the baseline.
    pub(crate) fn checkout_without_lock(
        &mut self,
        options: &PoolOptions,
        look: Option<&Look>,
        attempts: &mut Attempts,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        let first_attempt = attempts.ticket.is_none();
        if first_attempt {
            attempts.ticket = Some(self.waiters.new_ticket());
        }
        if self.closed {
            return Checkout::Fail(GetError::Closed);
        }
        let key = self.group_of(options, look);
        self.group_mut(key).forgotten = false;
        if let Some(look) = look {
            if first_attempt && self.needs_restart(key, look) {
                self.restart(key, options.restart_mode(), fx);
            }
        }
        let back_off_until = self.group(key).back_off_until;
        if back_off_until.is_some_and(|until| self.clock.now() >= until) {
            self.end_back_off(key);
        }

        // This overtakes no waiter (erratum E17: PROP-NO-OVERTAKING): while a get waits, no process of
        // its group has room (INV-EXACT-WAKE-UP).
        let Some(process) = self.select_process(key) else {
            return self.wait(key, attempts, first_attempt, patience, fx);
        };
        // Otherwise the group grows when a get finds no room, and waits (erratum E35: PROP-GROWTH).
        if self.process(process).sessions > 0 && self.group(key).options.eager_growth() {
            // All processes are active: use one of them, and spawn an extra one if allowed.
            self.spawn_if_allowed(key, fx);
        }
        Checkout::Serve(self.open_session(process, fx))
    }

    /// Detaches a process that refused the connection, and looks for another one. In one section: between two, a
    /// process could be granted to a later get (erratum E38: PROP-KEEPS-TURN).
    pub(crate) fn checkout_again(
        &mut self,
        refused: &Entry<S>,
        options: &PoolOptions,
        look: Option<&Look>,
        attempts: &mut Attempts,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        self.end_session(refused, Ending::Refused, fx);
        self.checkout_without_lock(options, look, attempts, patience, fx)
    }

    /// Makes the group of these options, or gives it new ones, and spawns up to its minimum where the pool has room.
    pub(crate) fn pre_start(
        &mut self,
        options: &PoolOptions,
        look: Option<&Look>,
    ) -> Result<(), GetError> {
        if self.closed {
            return Err(GetError::Closed);
        }
        self.make_group(options, look);
        Ok(())
    }
    pub(crate) fn make_group(&mut self, options: &PoolOptions, look: Option<&Look>) {
        let key = self.group_of(options, look);
        self.group_mut(key).forgotten = false;
    }

    fn wait(
        &mut self,
        key: GroupKey,
        attempts: &mut Attempts,
        first_attempt: bool,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        let group = self.group(key);
        if group.is_out_of_order() {
            if let Some(error) = &group.last_error {
                // While the group backs off, it spawns no process that could serve this get (erratum E27).
                return Checkout::Fail(GetError::Spawn(error.clone()));
            }
        }
        let (waiting, max_queue) = (group.queue.len(), group.options.max_queue());
        if matches!(patience, Patience::None) {
            // A later attempt finds the process that this attempt orders.
            self.spawn_if_allowed(key, fx);
            return Checkout::Fail(GetError::WouldBlock);
        }
        // At most `max_queue` gets of a group wait (erratum E19: PROP-QUEUE-BOUND).
        // A get whose process has crashed was admitted before (E38).
        if let Some(max_queue) = max_queue.filter(|max| first_attempt && waiting >= *max) {
            return Checkout::Fail(GetError::QueueFull { max_queue });
        }
        let queue = &mut self.groups.touch(key).queue;
        let is_thread = !matches!(patience, Patience::Task);
        let waiter = match attempts.ticket.filter(|_| !first_attempt) {
            // It keeps its turn: it waits before all gets that came later (erratum E38: PROP-KEEPS-TURN).
            Some(ticket) => self.waiters.requeue(queue, is_thread, ticket),
            None => self.waiters.enqueue_caller(queue, is_thread),
        };
        if let Some(max) = self.group(key).options.max_queue_time() {
            let until = *attempts.queued_until.get_or_insert_with(|| self.clock.now().plus(max));
            self.waiters.set_limit(waiter, until, key);
            self.is_due(until, fx);
        }
        self.waiting += 1;
        self.totals.waited += u64::from(!attempts.waited);
        attempts.waited = true;
        Checkout::Wait { group: key, waiter }
    }

    /// Returns whether the look asks for a restart. Each group compares it with its own last look, so two groups that
    /// share a directory both see a change (erratum E22: PROP-RESTART-SEEN).
    pub(crate) fn needs_restart(&mut self, key: GroupKey, look: &Look) -> bool {
        let group = self.group_mut(key);
        let changed = match group.seen.get_mut(&look.dir) {
            Some(seen) => seen.has_changed(look),
            None => {
                group.seen.insert(look.dir.clone(), LastSeen::new(look));
                false
            }
        };
        // `always_restart.txt` does not restart a group that is restarting already: a stream of gets would
        // restart it for ever, and be served never.
        let always = look.always && !group.reload_pending && group.outdated == 0;
        changed || always && (group.size > 0 || group.spawning.is_some())
    }

    /// Returns the least busy process with room; if some are idle, the most recently freed (PROP-CHOICE).
    ///
    /// The option `use_global_queue` needs no code here: it gives each process room for one session only.
    fn select_process(&self, key: GroupKey) -> Option<ProcessKey> {
        self.group(key).processes.first_with_room()
    }

    fn spawn_if_allowed(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        let group = self.group(key);
        let quiet = group.spawning.is_none() && group.back_off_until.is_none();
        // During a restart, spawns are replacements.
        if quiet && group.outdated == 0 && self.spawning_allowed(group) {
            self.start_spawn(key, Kind::Addition, fx);
        }
    }

    /// Counts one more session of the process, and moves it behind the processes with as many sessions.
    /// With its first session the process is idle no longer (INV-INACTIVE-IDLE), and with its last it is detached.
    pub(crate) fn open_session(&mut self, key: ProcessKey, fx: &mut Effects<S>) -> Arc<Entry<S>> {
        let info = &mut self.processes[key];
        let group = self.groups.touch(info.group);
        let entry = info.entry.clone();
        group.processes.remove(&mut self.processes, key);
        let info = &mut self.processes[key];
        info.sessions += 1;
        if info.sessions == 1 {
            group.idle -= 1;
            // The pseudocode sets max here, instead of active (erratum E1: INV-ACTIVE).
            self.active += 1;
        }
        // The pseudocode's move_to_back.
        group.processes.insert(&mut self.processes, key, Edge::Back);
        if self.processes[key].is_exhausted() {
            // It drains: its last session may last long, and holds no place (erratum E36: PROP-LAST-SESSION).
            self.detach_process(key, DetachReason::MaxRequests, fx);
        }
        entry
    }
}
