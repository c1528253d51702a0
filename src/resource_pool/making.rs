//! A resource that is being made, outside the lock, in a place that is reserved for it (rule 5).
//!
//! Whoever waits for it may give it up at any await. What is then to become of it depends on who began it:
//! one whose borrower has left is worth the patience of one more (`unfinished.rs`).

use super::factory::{Creation, Failure, Form};
use super::guard::Reserved;
use super::slot::Content;
use crate::foreign::{contained, release};
use crate::sync::has_failed;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// By whom a creation was begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    Here,
    ByAnother,
}

/// A resource is being made. If nobody waits for it any more, what was begun here becomes stock; what another
/// had begun is given up, for two have not lived to see its end (`unfinished.rs`).
pub(super) struct Making<'p, F: Form> {
    reserved: Option<Reserved<'p, F>>,
    creation: Option<Creation<F>>,
    begun: Begun,
    polled: bool,
}

impl<'p, F: Form> Making<'p, F> {
    pub(super) fn new(reserved: Reserved<'p, F>, creation: Creation<F>, begun: Begun) -> Self {
        Making { reserved: Some(reserved), creation: Some(creation), begun, polled: false }
    }
}

impl<F: Form> Unpin for Making<'_, F> {}

impl<'p, F: Form> Future for Making<'p, F> {
    type Output = (Reserved<'p, F>, Result<F::Resource, Failure<F::Error>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polled = true;
        let creation = self.creation.as_mut().expect("not polled after completion");
        let made = match contained(|| creation.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(made)) => made,
            Err(message) => Err(Failure::Panicked(message)),
        };
        release(self.creation.take());
        Poll::Ready((self.reserved.take().expect("not polled after completion"), made))
    }
}

impl<F: Form> Drop for Making<'_, F> {
    fn drop(&mut self) {
        let (Some(reserved), Some(creation)) = (self.reserved.take(), self.creation.take()) else {
            return;
        };
        if self.begun == Begun::ByAnother || !self.polled || has_failed() {
            // First what takes the place, then the place.
            release(creation);
            return;
        }
        let pool = reserved.pool();
        let slot = reserved.into_slot();
        pool.critical(|state, fx| state.give_back(slot, Content::Unfinished(creation), fx));
    }
}
