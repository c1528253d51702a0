//! The pseudocode's `cleaner`, under the lock: does what is due at a time. `work/cleaner_thread.rs` has its thread.
//!
//! These items become due:
//! - processes that no minimum protects and that have been idle for `max_idle_time`;
//! - processes that drain for too long (E13);
//! - groups whose back-off ends and that want a process (E26, E28);
//! - groups that have been unused for `forget_groups_after`;
//! - gets that have waited for as long as their group allows;
//! - groups that have waited for their first process for as long as a drain may take (E37);
//! - groups with processes, none of whose waiting gets was served for that time.

use super::effects::Effects;
use super::state::State;
use super::table_keys::ProcessKey;
use crate::application_pool::api::event::DetachReason;
use crate::application_pool::api::spawner::{ShutDown, Spawner};
use crate::kernel::clock::Time;

impl<S: Spawner> State<S> {
    /// Does everything that is due now.
    pub(crate) fn clean(&mut self, fx: &mut Effects<S>) {
        let now = self.clock.now();
        while let Some((_, key)) = self.next_idle().filter(|(due, _)| now >= *due) {
            self.detach_process(key, DetachReason::Idle, fx);
            self.settle(fx);
        }
        while let Some(key) =
            self.draining.front().filter(|key| now >= self.process(*key).drain_deadline)
        {
            self.end_drain(key, ShutDown::DeadlinePassed, fx);
            self.settle(fx);
        }
        while let Some((_, key)) = self.next_back_off().filter(|(until, _)| now >= *until) {
            self.end_back_off(key);
            self.settle(fx);
        }
        while let Some((_, group, waiter)) =
            self.waiters.next_limit().filter(|(until, ..)| now >= *until)
        {
            self.end_queue_time(group, waiter, fx);
            self.settle(fx);
        }
        while let Some(key) = self.unused.front().filter(|key| now >= self.group(*key).forget_at) {
            self.group_mut(key).forgotten = true;
            self.settle(fx);
        }
        while self.room_due().is_some_and(|due| now >= due) {
            self.make_room(fx);
            self.settle(fx);
        }
    }

    /// Returns when the next item is due, in O(1) (erratum E41).
    pub(crate) fn next_due(&self) -> Option<Time> {
        let idle = self.next_idle().map(|(due, _)| due);
        let drain = self.draining.front().map(|key| self.process(key).drain_deadline);
        let back_off = self.next_back_off().map(|(until, _)| until);
        let queued = self.waiters.next_limit().map(|(until, ..)| until);
        let forget = self.unused.front().map(|key| self.group(key).forget_at);
        [idle, drain, back_off, queued, forget, self.room_due()].into_iter().flatten().min()
    }

    /// Returns the longest idle process of a group above its minimum, and when it is due.
    #[inline]
    pub(crate) fn next_idle(&self) -> Option<(Time, ProcessKey)> {
        let max_idle_time = self.max_idle_time?;
        let key = self.longest_idle()?;
        Some((self.process(key).last_used.plus_span(max_idle_time), key))
    }

    /// Returns whether the cleaner wakes, or is woken, no later than something is due.
    pub(crate) fn wakes_cleaner_in_time(&self) -> bool {
        !self.cleaner_runs || self.next_due().is_none_or(|due| self.cleaner.rings_by(due))
    }
}
