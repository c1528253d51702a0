//! A waiter's place among the waiters of an owner, which it takes at its first look.
//!
//! A caller that waits for an end, or beside other work, does not know before its first look under the lock whether it
//! has to wait. So its wait begins without a place, and a wait that is dropped before its first look leaves none.

use crate::kernel::collections::wait_queue::{Queue, WaiterKey, Waiters, Wake};
use std::task::Waker;

/// A place that is taken at the first look.
#[derive(Debug, Default)]
pub(crate) struct Seat(Option<WaiterKey>);

impl Seat {
    /// Returns whether the waiter has taken its place.
    pub(crate) fn is_taken(&self) -> bool {
        self.0.is_some()
    }
    /// Takes the place of this waiter, which was added for it.
    pub(crate) fn sit(&mut self, waiter: WaiterKey) {
        debug_assert!(self.0.is_none(), "a waiter has one place");
        self.0 = Some(waiter);
    }
    /// Leaves with the outcome, or returns `None` if there is none yet.
    pub(crate) fn take<T, Q: Copy + Ord>(&self, waiters: &mut Waiters<T, Q>) -> Option<T> {
        waiters.take(self.waiter())
    }
    /// Returns how the waiter is woken. Called only while it has no outcome.
    pub(crate) fn wake_mut<'s, T, Q: Copy + Ord>(
        &self,
        waiters: &'s mut Waiters<T, Q>,
    ) -> &'s mut Wake {
        waiters.wake_mut(self.waiter())
    }
    /// Gives the place up. Returns an outcome that was granted meanwhile, and the waker, which the caller drops
    /// without the lock. Returns `None` if the waiter has not looked.
    pub(crate) fn give_up<T, Q: Copy + Ord>(
        &self,
        waiters: &mut Waiters<T, Q>,
        queue: &mut Queue,
    ) -> Option<(Option<T>, Option<Waker>)> {
        self.0.map(|waiter| waiters.cancel(queue, waiter))
    }
    fn waiter(&self) -> WaiterKey {
        self.0.expect("the waiter has looked")
    }
}
