//! How a borrower waits for its turn, and a caller for the end of a closed pool.

use super::effects::Effects;
use super::error::Refusal;
use super::factory::Form;
use super::patience::Patience;
use super::pool::Inner;
use super::state::{Asker, Outcome, State, Step};
use crate::clock::Deadline;
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Queue;
use crate::sync::has_failed;
use crate::user_code::drop_contained;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

impl<F: Form> Inner<F> {
    /// Waits until a closed pool has nothing left.
    pub(super) fn wait_closed(&self, deadline: Deadline) -> bool {
        let mut state = self.state.lock();
        if state.is_over() {
            return true;
        }
        let State { waiters, closing, .. } = &mut *state;
        let waiter = waiters.enqueue_thread(closing);
        let condvar = state.waiters.condvar(waiter);
        loop {
            if state.waiters.take(waiter).is_some() {
                return true;
            }
            if self.clock.has_passed(deadline) {
                let State { waiters, closing, .. } = &mut *state;
                waiters.cancel(closing, waiter);
                return false;
            }
            self.clock.wait(&condvar, &mut state, deadline);
        }
    }

    /// A thread waits for its turn; none: in vain.
    fn wait(&self, key: Key, waiter: Key, deadline: Deadline) -> Option<Step<F>> {
        let mut fx = Effects::new();
        let mut state = self.state.lock();
        let condvar = state.waiters.condvar(waiter);
        let step = loop {
            if let Some(step) = state.turn(key, waiter, Asker::Thread, &mut fx) {
                break Some(step);
            }
            if self.clock.has_passed(deadline) {
                state.give_up(key, waiter, &mut fx);
                break None;
            }
            self.clock.wait(&condvar, &mut state, deadline);
        };
        self.end_section(state, fx);
        step
    }
}

impl<F: Form> State<F> {
    /// Whether the waiter has come to its turn, and what it then meets.
    fn turn(
        &mut self,
        key: Key,
        waiter: Key,
        asker: Asker,
        fx: &mut Effects<F>,
    ) -> Option<Step<F>> {
        let ticket = self.waiters.ticket(waiter);
        Some(match self.waiters.take(waiter)? {
            // It comes for it after the close: nothing is made or lent by then.
            Outcome::Granted(grant) if self.closed => {
                self.return_grant(grant, fx);
                Step::Refused(Refusal::Closed)
            }
            Outcome::Granted(grant) => self.come_for(grant, fx),
            Outcome::Retry => self.retry(key, ticket, asker, fx),
            Outcome::Closed => Step::Refused(Refusal::Closed),
        })
    }
}

/// A place in the queue. None: the time is up.
pub(super) struct Turn<'a, F: Form> {
    pub(super) pool: &'a Inner<F>,
    pub(super) key: Key,
    /// Absent once the outcome has been taken.
    pub(super) waiter: Option<Key>,
    pub(super) patience: &'a Patience,
}

impl<F: Form> Future for Turn<'_, F> {
    type Output = Option<Step<F>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Step<F>>> {
        let mut waiter = self.waiter.expect("not polled after completion");
        let key = self.key;
        if self.patience.is_thread {
            self.waiter = None;
            let pool = self.pool;
            return Poll::Ready(pool.wait(key, waiter, self.patience.deadline));
        }
        // Cloned before the lock and dropped after it: both are foreign code.
        let mut waker = Some(cx.waker().clone());
        let (step, former) = self.pool.critical(|state, fx| {
            let step = match state.turn(key, waiter, Asker::Task, fx) {
                Some(Step::Wait(again)) => {
                    waiter = again;
                    None
                }
                step => step,
            };
            let former = match (&step, waker.take_if(|_| step.is_none())) {
                (None, Some(waker)) => state.waiters.set_waker(waiter, waker),
                _ => None,
            };
            (step, former)
        });
        drop_contained(former);
        drop_contained(waker);
        self.waiter = step.is_none().then_some(waiter);
        match step {
            Some(step) => Poll::Ready(Some(step)),
            None => Poll::Pending,
        }
    }
}

impl<F: Form> Drop for Turn<'_, F> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, fx| state.give_up(self.key, waiter, fx));
        }
    }
}

/// A task waits until a closed pool has nothing left.
pub(super) struct Closing<'a, F: Form> {
    pub(super) pool: &'a Inner<F>,
    pub(super) waiter: Option<Key>,
}

impl<F: Form> Future for Closing<'_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let waiter = self.waiter;
        let (waits, former) = self.pool.critical(|state, _| {
            let waiter = match waiter {
                Some(waiter) if state.waiters.take(waiter).is_some() => return (None, None),
                Some(waiter) => waiter,
                None if state.is_over() => return (None, None),
                None => state.waiters.enqueue_task(&mut state.closing),
            };
            let waker = waker.take().expect("taken only here");
            (Some(waiter), state.waiters.set_waker(waiter, waker))
        });
        drop_contained(former);
        drop_contained(waker);
        self.waiter = waits;
        if waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl<F: Form> Drop for Closing<'_, F> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) {
            let left = self.pool.critical(|state, _| {
                let queue: &mut Queue = &mut state.closing;
                state.waiters.cancel(queue, waiter)
            });
            drop_contained(left.1);
        }
    }
}
