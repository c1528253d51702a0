//! A resource that is being made, outside the lock, in a place that is reserved for it (rule 5).
//!
//! For a borrower, or for stock. Whoever waits for it may give it up at any await. What is then to become of it
//! depends on who began it: one that nobody has taken over yet is worth the patience of one more
//! (`unfinished.rs`).

use super::error::Failure;
use super::factory::{Creation, Form};
use super::guard::Reserved;
use super::slot::Content;
use crate::section::Guarded;
use crate::sync::has_failed;
use crate::user_code::{contain, drop_contained};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// By whom a creation was begun.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    Here,
    ByOther,
}

/// A place for what is being made: dropped, it is given back.
pub(super) trait Room<F: Form> {
    /// Nobody waits for it any more: it goes into stock, unfinished.
    fn leave(self, creation: Creation<F>);
}

impl<F: Form> Room<F> for Reserved<'_, F> {
    fn leave(self, creation: Creation<F>) {
        let pool = self.pool();
        let slot = self.into_slot();
        pool.critical(|state, fx| {
            state.give_back(slot, Content::Unfinished(Box::new(creation)), fx)
        });
    }
}

/// A resource is being made. If nobody waits for it any more, what was begun here becomes stock; what another
/// had begun is given up, for two have not lived to see its end (`unfinished.rs`).
pub(super) struct InCreation<F: Form, R: Room<F>> {
    room: Option<R>,
    creation: Option<Creation<F>>,
    begun: Begun,
    polled: bool,
}

impl<F: Form, R: Room<F>> InCreation<F, R> {
    pub(super) fn new(room: R, creation: Creation<F>, begun: Begun) -> Self {
        InCreation { room: Some(room), creation: Some(creation), begun, polled: false }
    }
}

impl<F: Form, R: Room<F>> Unpin for InCreation<F, R> {}

impl<F: Form, R: Room<F>> Future for InCreation<F, R> {
    type Output = (R, Result<F::Resource, Failure<F::Error>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polled = true;
        let creation = self.creation.as_mut().expect("not polled after completion");
        let made = match contain(|| creation.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(made)) => made,
            Err(message) => Err(Failure::Panicked(message)),
        };
        drop_contained(self.creation.take());
        Poll::Ready((self.room.take().expect("not polled after completion"), made))
    }
}

impl<F: Form, R: Room<F>> Drop for InCreation<F, R> {
    fn drop(&mut self) {
        let (Some(room), Some(creation)) = (self.room.take(), self.creation.take()) else {
            return;
        };
        if self.begun == Begun::ByOther || !self.polled || has_failed() {
            // First what takes the place, then the place.
            drop_contained(creation);
            return;
        }
        room.leave(creation);
    }
}
