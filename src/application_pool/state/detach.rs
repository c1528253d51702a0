//! Takes processes out of the pool: the pseudocode's `detach_without_lock` and
//! `detach_group_without_lock`. Draining, which it leaves open, is added (erratum E13).
//!
//! Detaching joins no thread (erratum E2). It cancels the spawn in flight; when that ends, its ticket is no
//! longer the group's.

use super::effects::{Effect, Effects};
use super::process_info::Place;
use super::state::{Outcome, State};
use super::table_keys::{GroupKey, ProcessKey};
use crate::application_pool::api::event::{DetachReason, Event};
use crate::application_pool::api::options::RestartMode;
use crate::application_pool::api::spawner::{Identifier, ShutDown, Spawner};

impl<S: Spawner> State<S> {
    /// Detaches the process with this identifier, if it is attached.
    pub(crate) fn detach_without_lock(
        &mut self,
        identifier: Identifier,
        reason: DetachReason,
        fx: &mut Effects<S>,
    ) -> bool {
        let Some(&key) = self.by_identifier.get(&identifier) else { return false };
        self.detach_process(key, reason, fx);
        true
    }

    /// Takes an attached process out of its group. An idle process is disposed of; a busy one drains.
    pub(crate) fn detach_process(
        &mut self,
        key: ProcessKey,
        reason: DetachReason,
        fx: &mut Effects<S>,
    ) {
        let info = &self.processes[key];
        let (group_key, idle, marked) = (info.group, info.is_idle(), info.marked);
        let unused = info.sessions == 0;
        let identifier = info.entry.identifier;
        // The process knows its own group; a name given by the caller may be another's (erratum E6).
        let group = self.groups.touch(group_key);
        if info.generation < group.generation {
            group.outdated -= 1;
        }
        fx.ends(info.entry.begun.as_ref(), || Event::Detached {
            group: group.name.clone(),
            identifier,
            pid: info.entry.pid,
            reason,
        });

        // While it drains it lives, but is no longer found (INV-IDENTIFIER).
        self.by_identifier.remove(&identifier);
        // A process outside its group's lists is detached: below it begins to drain, or is removed
        // (INV-PROCESS-ACCESSIBLE).
        group.processes.remove(&mut self.processes, key);
        group.by_age.remove(&mut self.processes, key);
        // Every detach takes this path (erratum E9: INV-GROUP-SIZE).
        group.size -= 1;
        if marked {
            self.marked = None;
        }
        // A process is either idle or active (INV-INACTIVE-SIZE).
        if idle {
            group.idle -= 1;
        } else {
            self.mutate_active(self.active - 1);
        }
        // With the group's size (INV-COUNT).
        self.mutate_count(self.count - 1);
        self.totals.detached += 1;

        if unused {
            self.dispose(key, ShutDown::Drained, fx);
        } else {
            let deadline = self.clock.now().plus(self.limits.drain_timeout);
            let info = &mut self.processes[key];
            info.place = Place::Draining;
            info.marked = false;
            info.drain_deadline = deadline;
            // Only a process with sessions drains, and its group counts it (INV-DRAINING).
            self.draining.push_back(&mut self.processes, key);
            self.groups.touch(group_key).draining.push_back(&mut self.processes, key);
            self.is_due(deadline, fx);
        }
        // At once: `by_surplus` shows in which order the groups have changed.
        self.refresh(group_key, fx);
    }

    /// Disposes of a draining process without sessions, or past its deadline (PROP-DRAIN-ENDS).
    pub(crate) fn end_drain(&mut self, key: ProcessKey, how: ShutDown, fx: &mut Effects<S>) {
        let group = self.process(key).group;
        self.draining.remove(&mut self.processes, key);
        self.groups.touch(group).draining.remove(&mut self.processes, key);
        self.dispose(key, how, fx);
    }

    fn dispose(&mut self, key: ProcessKey, how: ShutDown, fx: &mut Effects<S>) {
        // The same section removes the process and raises `gone` (INV-PROCESS-HERE).
        let info = self.processes.remove(key);
        info.entry.gone.raise();
        fx.push(Effect::Dispose(info.entry, how));
    }

    /// Detaches every process of the group and gives up its spawn. Its waiters stay, for the processes spawned
    /// after this.
    pub(crate) fn detach_group_without_lock(
        &mut self,
        key: GroupKey,
        reason: DetachReason,
        fx: &mut Effects<S>,
    ) {
        // From the front until it is empty: no iterator walks a list that changes (erratum E10).
        while let Some(process) = self.group(key).by_age.front() {
            self.detach_process(process, reason, fx);
        }
        self.give_up_spawn(key, fx);
    }

    /// Cancels the group's spawn in flight. Its reservation stays until the spawn has ended, because its process may
    /// live until then.
    fn give_up_spawn(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        if let Some(spawning) = self.group_mut(key).spawning.take() {
            fx.push(Effect::Cancel(spawning.cancel));
        }
    }

    /// Replaces the group's processes by ones with the new code (erratum E34).
    pub(crate) fn restart(&mut self, key: GroupKey, mode: RestartMode, fx: &mut Effects<S>) {
        self.end_back_off(key);
        let group = self.group_mut(key);
        group.failures = 0;
        group.generation += 1;
        // All its processes are of an older generation now (INV-OUTDATED).
        group.outdated = group.size;
        group.reload_pending = true;
        let name = &group.name;
        fx.event(|| Event::Restarting { group: name.clone(), mode });
        match mode {
            RestartMode::Immediate => {
                self.detach_group_without_lock(key, DetachReason::Restarted, fx);
            }
            // The spawn in flight may be loading the old code.
            RestartMode::Rolling => self.give_up_spawn(key, fx),
        }
    }

    /// Restarts the group with this name, as a new restart file would.
    pub(crate) fn restart_group(
        &mut self,
        name: &str,
        mode: RestartMode,
        fx: &mut Effects<S>,
    ) -> bool {
        let found = self.find_known(name).filter(|_| !self.closed);
        if let Some(key) = found {
            self.restart(key, mode, fx);
        }
        found.is_some()
    }

    /// Detaches the group with this name and forgets it.
    pub(crate) fn detach_group(&mut self, name: &str, fx: &mut Effects<S>) -> bool {
        let Some(&key) = self.group_by_name.get(name) else { return false };
        self.detach_group_without_lock(key, DetachReason::Requested, fx);
        self.forget_history(key, fx);
        // Waiters are served by processes spawned after this.
        self.group_mut(key).forgotten = self.group(key).queue.is_empty();
        true
    }

    /// Forgets the group's failures, its restart, and its last look at the restart files (PROP-DETACH-RESETS).
    fn forget_history(&mut self, key: GroupKey, fx: &mut Effects<S>) {
        self.end_back_off(key);
        let group = self.group_mut(key);
        group.failures = 0;
        group.reload_pending = false;
        group.seen.clear();
        if let Some(error) = group.last_error.take() {
            fx.push(Effect::DropError(error));
        }
    }

    /// Refuses further gets, ends all waits and detaches all processes (erratum E32: INV-CLOSED).
    pub(crate) fn close(&mut self, fx: &mut Effects<S>) {
        if self.closed {
            return;
        }
        self.closed = true;
        self.close_looks(fx);
        let keys: Vec<GroupKey> = self.group_by_name.values().copied().collect();
        for key in keys {
            self.resolve_all(key, || Outcome::Closed, fx);
            self.detach_group_without_lock(key, DetachReason::Closed, fx);
            self.forget_history(key, fx);
        }
        self.notify_if_ended(fx);
    }
}

#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use crate::in_memory::InMemorySpawner;
    use crate::kernel::collections::smaller::LARGE;
    use crate::kernel::section::Guarded;
    use crate::{ApplicationPool, PoolOptions};

    #[test] // E41
    fn a_pool_whose_groups_are_gone_keeps_no_memory_of_them() {
        let builder = ApplicationPool::builder(InMemorySpawner::new()).max(LARGE + 1);
        let pool = builder.cleaner(false).build().expect("a valid pool");
        let options = |nth: usize| PoolOptions::new(format!("/{nth}"));
        (0..=LARGE).for_each(|nth| drop(pool.get(&options(nth)).expect("a session")));
        let capacities = || {
            pool.inner().critical(|state, _| {
                let of_groups = state.groups.capacity().max(state.group_by_name.capacity());
                of_groups.max(state.processes.capacity()).max(state.by_identifier.capacity())
            })
        };
        assert!(capacities() > LARGE);
        (0..=LARGE).for_each(|nth| assert!(pool.detach_group(options(nth).app_group_name())));
        assert!(capacities() <= LARGE / 4, "{}", capacities());
        drop(pool.get(&options(0)).expect("a session"));
    }

    #[test] // E41
    fn a_group_that_stays_does_not_keep_the_memory_of_those_that_went() {
        let builder = ApplicationPool::builder(InMemorySpawner::new()).max(LARGE + 1);
        let pool = builder.cleaner(false).build().expect("a valid pool");
        let options = |nth: usize| PoolOptions::new(format!("/{nth}"));
        let capacities = || {
            pool.inner().critical(|state, _| {
                let of_groups = state.groups.capacity().max(state.group_by_name.capacity());
                of_groups.max(state.processes.capacity()).max(state.by_identifier.capacity())
            })
        };
        let session = pool.get(&options(0)).expect("a session");
        for _ in 0..2 {
            (1..=LARGE).for_each(|nth| drop(pool.get(&options(nth)).expect("a session")));
            assert!(capacities() > LARGE);
            let gone = |nth| assert!(pool.detach_group(options(nth).app_group_name()));
            (1..=LARGE).for_each(gone);
            assert!(capacities() <= LARGE, "{}", capacities());
        }
        // It is found under its name and by its process.
        drop(session);
        drop(pool.try_get(&options(0)).expect("an idle process"));
        // One that came last keeps the table until it goes.
        (1..=LARGE).for_each(|nth| drop(pool.get(&options(nth)).expect("a session")));
        (0..LARGE).for_each(|nth| assert!(pool.detach_group(options(nth).app_group_name())));
        drop(pool.try_get(&options(LARGE)).expect("an idle process"));
        assert!(pool.detach_group(options(LARGE).app_group_name()));
        assert!(capacities() <= LARGE, "{}", capacities());
    }
}
