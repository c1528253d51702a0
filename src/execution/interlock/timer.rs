//! The time limits of tasks: a thread that sleeps until the earliest one, and ends with the interlock.
//!
//! It wakes a task whose limit has passed. The task then gives its wait up in a section of its own, unless it was
//! granted meanwhile. A waiting thread needs no timer.

use super::caller::OwnerId;
use super::inner::Inner;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::OnWaiter;
use crate::kernel::section::Guarded;
use crate::periodic_executor::{OpenError, PeriodicExecutor, Verdict};
use std::sync::Arc;
use std::time::Duration;

impl Inner {
    /// Limits the wait of a task that begins now.
    pub(super) fn limit_task(self: &Arc<Self>, id: OwnerId, limit: Duration) {
        let is_earlier = self.state.amend(|state| {
            let due = state.since(id).plus(limit);
            let waiter = state.owner_mut(id).waiter.as_mut().expect("the task waits");
            waiter.deadline = Some(due);
            state.deadlines.insert((due, id));
            state.timer.ring_by(due)
        });
        if self.wake_timer(is_earlier).is_err() {
            // A limit that cannot be kept has passed: the wait ends at the first poll.
            self.state.amend(|state| {
                state.timer.clear();
                let waiter = state.owner_mut(id).waiter.as_mut().expect("the task waits");
                waiter.expired = true;
            });
        }
    }
    /// Opens the timer, and wakes it if it sleeps too long. Fails in a forked child, which has not the timer's thread.
    fn wake_timer(self: &Arc<Self>, sleeps_too_long: bool) -> Result<(), OpenError> {
        let timer = self.timer.get_or_init(|| {
            PeriodicExecutor::builder(None)
                .name("cabrank interlock")
                .clock(self.state.clock().clone())
                // The interlock ends it, and no registry.
                .unregistered()
                .build_weak_ref(Arc::downgrade(self), Inner::end_waits)
        });
        timer.open()?;
        if sleeps_too_long {
            timer.wake();
        }
        Ok(())
    }
    /// Wakes the tasks whose limit has passed. Returns until when the timer sleeps.
    fn end_waits(self: &Arc<Self>) -> Verdict {
        let now = self.state.clock().now();
        let next = self.critical(|state, fx| {
            while let Some((due, id)) = state.deadlines.first().copied() {
                if due > now {
                    break;
                }
                state.deadlines.pop_first();
                let waiter = state.owner_mut(id).waiter.as_mut().expect("its deadline is listed");
                (waiter.deadline, waiter.expired) = (None, true);
                if let Wake::Task(waker) = &mut waiter.wake {
                    fx.push(OnWaiter::Wake(Wake::Task(waker.take())));
                }
            }
            let next = state.deadlines.first().map(|(due, _)| *due);
            state.timer.set(next);
            next
        });
        Verdict::when_due(next, self.state.clock())
    }
}
