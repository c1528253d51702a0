//! Chooses a process for a get: the pseudocode's `checkout_without_lock`.

use super::effects::Effects;
use super::error::GetError;
use super::group::End;
use super::options::PoolOptions;
use super::process_info::Entry;
use super::restart_files::{LastSeen, Look};
use super::spawn_order::Kind;
use super::spawner::Spawner;
use super::state::State;
use crate::collections::slab_list::Key;
use crate::section::Patience;
use crate::sync::Arc;

/// What one critical section makes of a get.
pub(crate) enum Checkout<S: Spawner> {
    /// A session of this process, counted already.
    Serve(Arc<Entry<S>>),
    /// Wait for the group as this waiter.
    Wait {
        group: Key,
        waiter: Key,
    },
    Fail(GetError),
}

impl<S: Spawner> State<S> {
    /// `look` is what was seen of the restart files, outside the lock; it is tested in the first of a
    /// get's attempts only (erratum E24: PROP-RESTART-ONCE), and is the baseline of a group that is
    /// new in a later one.
    pub(crate) fn checkout_without_lock(
        &mut self,
        options: &PoolOptions,
        look: Option<&Look>,
        first_attempt: bool,
        patience: Patience,
        fx: &mut Effects<S>,
    ) -> Checkout<S> {
        if self.closed {
            return Checkout::Fail(GetError::Closed);
        }
        let key = self.group_of(options, look, fx);
        self.group_mut(key).forgotten = false;
        if let Some(look) = look
            && first_attempt
            && self.needs_restart(key, look)
        {
            self.restart(key, options.restart_mode(), fx);
        }
        if let Some(until) = self.group(key).back_off_until
            && self.clock.now() >= until
        {
            self.end_back_off(key);
            self.settle(key, fx);
        }

        // Nobody is overtaken (erratum E17: PROP-NO-OVERTAKING): while a get waits, no process of its
        // group has room (INV-EXACT-WAKE-UP).
        let Some(process) = self.select_process(key) else {
            return self.wait(key, patience, fx);
        };
        if self.process(process).sessions > 0 {
            // All are active. We use one of them, and spawn an extra process if we may.
            self.spawn_if_allowed(key, fx);
        }
        let entry = self.open_session(process);
        // Only what taking a session changes: no get waits, nothing was freed, and what the group still
        // wants it stands in line for already (INV-WANT).
        self.refresh(key);
        Checkout::Serve(entry)
    }

    fn wait(&mut self, key: Key, patience: Patience, fx: &mut Effects<S>) -> Checkout<S> {
        let group = self.group(key);
        if group.size == 0
            && group.back_off_until.is_some()
            && let Some(error) = &group.last_error
        {
            // Nothing that is under way could serve it (erratum E27).
            return Checkout::Fail(GetError::Spawn(error.clone()));
        }
        let max_queue = group.options.max_queue();
        if matches!(patience, Patience::None) {
            // A later try will find what this one asked for.
            self.spawn_if_allowed(key, fx);
            self.settle(key, fx);
            return Checkout::Fail(GetError::WouldBlock);
        }
        // PROP-QUEUE-BOUND.
        if max_queue > 0 && group.queue.len() >= max_queue {
            return Checkout::Fail(GetError::QueueFull { max_queue });
        }
        let queue = &mut self.groups[key.index()].queue;
        let waiter = match patience {
            Patience::Task => self.waiters.enqueue_task(queue),
            Patience::Thread(_) | Patience::None => self.waiters.enqueue_thread(queue),
        };
        self.waiting += 1;
        self.totals.waited += 1;
        self.settle(key, fx);
        Checkout::Wait { group: key, waiter }
    }

    /// The restart file's state is compared with what this group saw last: two groups that share a
    /// directory both see a change (erratum E22: PROP-RESTART-SEEN).
    fn needs_restart(&mut self, key: Key, look: &Look) -> bool {
        let group = self.group_mut(key);
        let changed = match group.seen.get_mut(&look.dir) {
            Some(seen) => seen.has_changed(look),
            None => {
                group.seen.insert(look.dir.clone(), LastSeen::new(look));
                false
            }
        };
        // `always_restart.txt` does not restart what is being restarted already: under a stream of
        // gets none would ever be served.
        let always = look.always && !group.reload_pending && group.outdated == 0;
        changed || always && (group.size > 0 || group.spawning.is_some())
    }

    /// The least busy process with room, the most recently freed one if one is idle
    /// (PROP-CHOICE). The text's global queue is the case in which no process takes a second session.
    fn select_process(&self, key: Key) -> Option<Key> {
        self.group(key).processes.first_with_room()
    }

    fn spawn_if_allowed(&mut self, key: Key, fx: &mut Effects<S>) {
        let group = self.group(key);
        let quiet = group.spawning.is_none() && group.back_off_until.is_none();
        // While a restart is under way, what is spawned replaces what is old.
        if quiet && group.outdated == 0 && self.spawning_allowed(group) {
            self.start_spawn(key, Kind::Addition, fx);
        }
    }

    /// Counts one more session of the process.
    pub(crate) fn open_session(&mut self, key: Key) -> Arc<Entry<S>> {
        let info = &mut self.processes[key.index()];
        let group = &mut self.groups[info.group.index()];
        let entry = info.entry.clone();
        group.processes.remove(&mut self.processes, key);
        let info = &mut self.processes[key.index()];
        info.sessions += 1;
        if info.sessions == 1 {
            group.idle -= 1;
            // Its first session: it is not idle any more (INV-INACTIVE-IDLE).
            self.inactive_apps.remove(&mut self.processes, key);
            // What changes is this, and not max, which the text sets here (erratum E1: INV-ACTIVE).
            self.active += 1;
        }
        // The text's move_to_back.
        group.processes.insert(&mut self.processes, key, End::Back);
        entry
    }
}
