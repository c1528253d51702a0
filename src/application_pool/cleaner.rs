//! Shuts down what has been idle for too long, and whatever else is due at a time: the pseudocode's
//! `cleaner`.
//!
//! It sleeps until the next thing is due, and without end while nothing is (erratum E30). Due are:
//! processes that no minimum protects and that have been idle for `max_idle_time`; processes that
//! drain for too long (E13); groups whose back-off ends and that want a process (E26, E28).

use super::effects::Effects;
use super::event::DetachReason;
use super::inner::Inner;
use super::process_info::Inactive;
use super::spawner::{ShutDown, Spawner};
use super::state::{End, State};
use crate::clock::Time;
use crate::collections::slab_list::{Key, List};
use crate::periodic_executor::{Flow, OpenError, PeriodicExecutor, Verdict};
use crate::section::Guarded;
use std::sync::Arc;
use std::time::Duration;

impl<S: Spawner> State<S> {
    /// One pass: does what is due now.
    pub(crate) fn clean(&mut self, fx: &mut Effects<S>) {
        let now = self.clock.now();
        while let Some(key) = self.next_idle()
            && now >= self.process(key).last_used.plus_span(self.max_idle_time)
        {
            let group = self.process(key).group;
            self.detach_process(key, DetachReason::Idle, fx);
            self.settle(group, fx);
        }
        while let Some(key) = self.draining.front()
            && now >= self.process(key).drain_deadline
        {
            self.end_drain(key, ShutDown::DeadlinePassed, fx);
        }
        while let Some((until, key)) = self.next_back_off()
            && now >= until
        {
            self.end_back_off(key);
            self.settle(key, fx);
        }
    }

    /// When there is something to do again.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let idle =
            self.next_idle().map(|key| self.process(key).last_used.plus_span(self.max_idle_time));
        let drain = self.draining.front().map(|key| self.process(key).drain_deadline);
        let back_off = self.next_back_off().map(|(until, _)| until);
        [idle, drain, back_off].into_iter().flatten().min()
    }

    /// The longest idle process of a group above its minimum. Passes over those that a minimum
    /// protects; there is nothing to pass over, or nothing to find, in the common cases.
    fn next_idle(&self) -> Option<Key> {
        if self.max_idle_time.is_zero() || self.evictable == 0 {
            return None;
        }
        let is_free = |&key: &Key| self.group(self.process(key).group).is_above_minimum();
        let list: &List<Inactive> = &self.inactive_apps;
        list.iter(&self.processes).find(is_free)
    }

    fn next_back_off(&self) -> Option<(Time, Key)> {
        let fronts = self.backing_off.iter().filter_map(|list| list.front());
        let ends = fronts.filter_map(|key| Some((self.group(key).back_off_until?, key)));
        ends.min_by_key(|(until, _)| *until)
    }
}

impl<S: Spawner> Inner<S> {
    /// The text's `thread cleaner`: a periodic executor that refers to the pool weakly and chooses each of
    /// its pauses. It ends with the pool, or when a closed pool has nothing left.
    pub(crate) fn start_cleaner(self: &Arc<Self>) -> Result<(), OpenError> {
        self.critical(|state, _| state.cleaner_runs = true);
        let cleaner = self.cleaner.get_or_init(|| {
            PeriodicExecutor::builder(Duration::MAX)
                .name("cabrank cleaner")
                .clock(self.clock().clone())
                // The pool's own end is what ends it.
                .unregistered()
                .weak_ref(Arc::downgrade(self), Inner::cleaner)
        });
        cleaner.open()
    }

    pub(crate) fn wake_cleaner(&self) {
        if let Some(cleaner) = self.cleaner.get() {
            cleaner.wake();
        }
    }

    /// One pass, and how long the cleaner sleeps after it. Whoever makes something due earlier finds that
    /// under the lock, and wakes it: also if it has not lain down yet.
    pub(crate) fn cleaner(self: &Arc<Self>) -> Verdict {
        let mut verdict = Verdict::from(Flow::Stop);
        self.critical(|state, fx| {
            state.clean(fx);
            if !state.has_come(End::OfEverything) {
                let due = state.next_due();
                state.cleaner_sleeps_until = due;
                verdict = due
                    .map_or(Flow::Idle.into(), |due| Verdict::Until(self.clock().deadline_at(due)));
            }
        });
        verdict
    }
}
