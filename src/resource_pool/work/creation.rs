//! A creation, run outside the lock in a place that is reserved for it. It may be dropped at any await.
//!
//! In a pool with a runtime, a borrower that creates is still a waiter: it takes whichever comes first, its own resource
//! or one that another borrower returns. Otherwise a slow connect would hold up a borrower beside idle resources. The
//! wait begins when the creation first pends, so a creation that is ready at once costs no section.
//!
//! Without a runtime, only the borrower polls its creation, so it stays until that ends. If the borrower took what comes
//! back, its creation would have to be dropped. Where loans are shorter than a connect, the pool would never fill.
//!
//! `orphans.rs` says what becomes of a creation that its borrower leaves, or does not need any more.

use super::inner::Inner;
use super::refilling::Refilling;
use super::reserved::ReservedPlace;
use super::time_limits::Limit;
use crate::kernel::section::{Guarded, Patience, Turn};
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::{contain, drop_contained};
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::names::SlotKey;
use crate::resource_pool::state::slot::Content;
use crate::resource_pool::state::state::Step;
use crate::resource_pool::state::waiting::WaitWhileCreating;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

type Made<F> = Result<<F as Form>::Resource, Failure<<F as Form>::Error>>;

/// Polls a creation, and drops it at its end.
fn poll<F: Form>(creation: &mut Option<Creation<F>>, cx: &mut Context<'_>) -> Poll<Made<F>> {
    let current = creation.as_mut().expect("not polled after completion");
    let made = match contain(|| current.as_mut().poll(cx)) {
        Ok(Poll::Pending) => return Poll::Pending,
        Ok(Poll::Ready(made)) => made,
        Err(message) => Err(Failure::Panicked(message)),
    };
    drop_contained(creation.take());
    Poll::Ready(made)
}

/// A future that completes a borrower's creation, or ends with the next step of a borrower that was served before.
pub(crate) struct Creating<'p, F: Form> {
    pool: &'p Inner<F>,
    place: Option<ReservedPlace<'p, F>>,
    creation: Option<Creation<F>>,
    /// The wait for a resource that comes back, once the creation has pended.
    turn: Option<Turn<'p, Inner<F>, WaitWhileCreating>>,
    ticket: u64,
    /// When it is overdue, should its borrower leave it; set when the creation first pends.
    overdue: Option<Limit>,
}

impl<'p, F: Form> Creating<'p, F> {
    pub(crate) fn new(
        pool: &'p Inner<F>,
        place: ReservedPlace<'p, F>,
        creation: Creation<F>,
        ticket: u64,
    ) -> Self {
        let (place, creation) = (Some(place), Some(creation));
        Creating { pool, place, creation, turn: None, ticket, overdue: None }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<Step<F>> {
        let Some(turn) = &mut self.turn else { return Poll::Pending };
        let Poll::Ready(served) = Pin::new(turn).poll(cx) else { return Poll::Pending };
        self.turn = None;
        Poll::Ready(served.unwrap_or_else(|()| unreachable!("a task has no deadline")))
    }

    /// Leaves the creation to the pool, or drops it before its place is given back: it occupies the place until then.
    fn leave(&mut self) {
        let (Some(place), Some(creation)) = (self.place.take(), self.creation.take()) else {
            return;
        };
        if has_failed() {
            return;
        }
        let drives = self.pool.drives();
        let stays = |slot| self.pool.critical(|state, fx| state.leave_creation(slot, drives, fx));
        match stays(place.slot()) {
            true => {
                let (slot, meta) = place.into_parts();
                self.pool.drive(slot, meta, creation, self.overdue.take());
            }
            false => drop_contained(creation),
        }
    }
}

impl<F: Form> Unpin for Creating<'_, F> {}

impl<'p, F: Form> Future for Creating<'p, F> {
    type Output = Result<(ReservedPlace<'p, F>, Made<F>), Step<F>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Poll::Ready(step) = this.poll_turn(cx) {
            return Poll::Ready(Err(step));
        }
        let Poll::Ready(made) = poll::<F>(&mut this.creation, cx) else {
            if this.turn.is_some() || !this.pool.drives() {
                return Poll::Pending;
            }
            this.overdue = this.pool.overdue_limit();
            let slot = this.place.as_ref().expect("present until the end").slot();
            let wait = WaitWhileCreating::new(slot, this.ticket);
            this.turn = Some(this.pool.turn(wait, Patience::Task));
            return this.poll_turn(cx).map(Err);
        };
        if let Some(step) = this.turn.take().and_then(Turn::end) {
            // Another resource was granted first: the drop leaves this creation.
            this.creation = Some(Box::pin(ready(made)));
            return Poll::Ready(Err(step));
        }
        Poll::Ready(Ok((this.place.take().expect("present until the end"), made)))
    }
}

impl<F: Form> Drop for Creating<'_, F> {
    fn drop(&mut self) {
        // Gives the wait up first: a resource that was granted meanwhile goes to the next waiter.
        self.turn = None;
        self.leave();
    }
}

/// A future that completes a creation for the idle list.
pub(crate) struct InCreation<'p, F: Form> {
    refilling: Option<Refilling<'p, F>>,
    creation: Option<Creation<F>>,
    /// It is an orphan already. Then it ends with this future.
    orphaned: bool,
    /// As in [`Creating`].
    overdue: Option<Limit>,
}

impl<'p, F: Form> InCreation<'p, F> {
    pub(crate) fn new(refilling: Refilling<'p, F>, creation: Creation<F>, orphaned: bool) -> Self {
        let (refilling, creation) = (Some(refilling), Some(creation));
        InCreation { refilling, creation, orphaned, overdue: None }
    }
}

impl<F: Form> Unpin for InCreation<'_, F> {}

impl<'p, F: Form> Future for InCreation<'p, F> {
    type Output = (Refilling<'p, F>, Made<F>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(made) = poll::<F>(&mut self.creation, cx) else {
            if let (Some(refilling), false) =
                (&self.refilling, self.orphaned || self.overdue.is_some())
            {
                self.overdue = refilling.overdue_limit();
            }
            return Poll::Pending;
        };
        Poll::Ready((self.refilling.take().expect("not polled after completion"), made))
    }
}

impl<F: Form> Drop for InCreation<'_, F> {
    fn drop(&mut self) {
        let (Some(refilling), Some(creation)) = (self.refilling.take(), self.creation.take())
        else {
            return;
        };
        if self.orphaned || has_failed() {
            drop_contained(creation);
            return;
        }
        refilling.leave(creation, self.overdue.take());
    }
}

impl<F: Form> Inner<F> {
    /// Ends a creation in its reserved place without a resource.
    pub(crate) fn end_creation(&self, slot: SlotKey) {
        self.critical(|state, fx| state.added(slot, Content::Nothing, fx));
    }
}
