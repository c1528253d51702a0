//! A creation, run outside the lock in a place that is reserved for it.
//!
//! It runs for a borrower or for the idle list, and may be dropped at any await. `unfinished.rs` says what becomes of
//! it then.

use super::error::Failure;
use super::factory::{Creation, Form};
use super::reserved::ReservedPlace;
use super::slot::Content;
use crate::section::Guarded;
use crate::sync::has_failed;
use crate::user_code::{contain, drop_contained};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Which caller began a creation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Begun {
    Here,
    ByOther,
}

/// The reserved place of a creation. Its drop gives the place back.
pub(super) trait Room<F: Form> {
    /// Puts the unfinished creation into the idle list.
    fn leave(self, creation: Creation<F>);
}

impl<F: Form> Room<F> for ReservedPlace<'_, F> {
    fn leave(self, creation: Creation<F>) {
        let pool = self.pool();
        let slot = self.into_slot();
        pool.critical(|state, fx| {
            state.give_back(slot, Content::Unfinished(Box::new(creation)), fx)
        });
    }
}

/// A future that completes a creation. If it is dropped first, a creation begun here becomes idle. One that another
/// caller began is dropped: it was taken over once (PROP-RP-OFFERED-ONCE).
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
            // Drop the creation before its place is given back: it occupies the place until then.
            drop_contained(creation);
            return;
        }
        room.leave(creation);
    }
}
