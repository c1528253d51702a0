//! The short way: what is in stock is lent, and comes back to a pool in which nobody waits.
//!
//! In a pool without keys, minimum and times this is nearly every borrow and return, and all that there is
//! to do is to move one resource between its slot and its borrower. So that is done here by itself, in one
//! section each; whatever is not that simple is left to `state.rs` and `stock.rs`, in the same section: they
//! do the same and everything else. The invariants are asserted here as there.
//!
//! Nothing here is copied on its way: where the general way would give its result in the same variable, the
//! compiler has to keep both in memory, and reading there as a whole what was just written in parts costs
//! more than all the rest.

use super::error::BorrowError;
use super::event::PoolEvent;
use super::factory::{Form, Preparation};
use super::guard::{Borrowed, Loan, Reserved};
use super::pool::{Inner, Patience, now};
use super::slot::{Content, Place};
use super::state::{Asker, State, Step};
use crate::slab_list::Key;
use crate::sync::MutexGuard;
use std::sync::Arc;
use std::time::Duration;

/// What was in stock.
pub(crate) struct Taken<R> {
    slot: Key,
    resource: R,
    unclean: bool,
}

/// The key of a pool that has none.
pub(super) const THE_KEY: Key = Key::FIRST;

impl<F: Form> State<F> {
    /// The next one in stock, if it is finished.
    #[inline]
    fn just_lend(&mut self) -> Option<Taken<F::Resource>> {
        let sub = &mut self.subs[THE_KEY.index()];
        let turn = self.waiting == 0 || !self.options.fair;
        if !self.plain || self.closed || !turn || sub.active >= self.limits.max_active {
            return None;
        }
        let slot = if self.options.fifo { sub.idle.front() } else { sub.idle.back() }?;
        let entry = &mut self.slots[slot.index()];
        if !matches!(entry.content, Content::Ready(_)) {
            return None;
        }
        let Content::Ready(resource) = entry.content.take() else { return None };
        let unclean = std::mem::take(&mut entry.unclean);
        entry.place = Place::Lent;
        sub.active += 1;
        self.active += 1;
        self.idle -= 1;
        sub.idle.remove(&mut self.slots, slot);
        Some(Taken { slot, resource, unclean })
    }

    /// Whether what comes back need only be put into stock.
    #[inline]
    fn may_just_be_stocked(&self, slot: Key) -> bool {
        self.plain
            && self.waiting == 0
            && !self.closed
            && self.idle < self.limits.max_idle()
            && self.total - self.leaving <= self.limits.max_total
            && self.slots[slot.index()].epoch == self.epoch
    }

    #[inline]
    fn just_stock(&mut self, slot: Key, resource: F::Resource, unclean: bool) {
        let sub = &mut self.subs[THE_KEY.index()];
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Idle;
        entry.content = Content::Ready(resource);
        entry.unclean = unclean;
        sub.active -= 1;
        self.active -= 1;
        self.idle += 1;
        sub.idle.push_back(&mut self.slots, slot);
    }
}

impl<F: Form> Inner<F> {
    /// Lends without keys, to a thread.
    #[inline(always)] // Else its result is copied, see above.
    pub(super) fn borrow<'p>(
        self: &'p Arc<Self>,
        asker: Asker,
        timeout: Option<Duration>,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        let patience = Patience::of_a_thread(&self.clock, timeout);
        let mut state = self.state.lock();
        let loan = match state.just_lend() {
            Some(Taken { slot, mut resource, unclean }) => {
                state.end_section();
                drop(state);
                let (factory, options) = (&**self.factory, &self.options);
                let metadata = self.metadata(&None);
                let mut all = Preparation::new(factory, metadata, &mut resource, unclean, options);
                if now(F::prepare(&mut all)) {
                    Loan { slot, resource, meta: None }
                } else {
                    let event = all.event;
                    self.borrow_another(slot, resource, event, patience)?
                }
            }
            None => self.borrow_slowly(state, asker, patience)?,
        };
        Ok(Borrowed::new(self, loan))
    }

    #[cold]
    fn borrow_slowly(
        self: &Arc<Self>,
        state: MutexGuard<'_, State<F>>,
        asker: Asker,
        patience: Patience,
    ) -> Result<Loan<F>, BorrowError<F::Error>> {
        let step = self.ask_slowly(state, asker);
        now(self.lend(THE_KEY, step, patience)).map(Borrowed::into_loan)
    }

    #[cold]
    fn borrow_another(
        self: &Arc<Self>,
        slot: Key,
        resource: F::Resource,
        event: Option<PoolEvent<F::Error>>,
        patience: Patience,
    ) -> Result<Loan<F>, BorrowError<F::Error>> {
        let reserved = Reserved::new(self, slot, Some(resource), None);
        if let Some(event) = event {
            self.tell(&None, event);
        }
        let step = self.another(reserved, &patience);
        now(self.lend(THE_KEY, step, patience)).map(Borrowed::into_loan)
    }

    /// Lends without keys, to a task.
    #[inline]
    pub(super) async fn borrow_async<'p>(
        self: &'p Arc<Self>,
        asker: Asker,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        let step = match self.ask(asker) {
            Ok(Taken { slot, resource, unclean }) => {
                let mut reserved = Reserved::new(self, slot, Some(resource), None);
                let (metadata, resource) = reserved.parts();
                let (factory, options) = (&**self.factory, &self.options);
                let mut all = Preparation::new(factory, metadata, resource, unclean, options);
                if F::prepare(&mut all).await {
                    return Ok(reserved.lend());
                }
                if let Some(event) = all.event {
                    self.tell(&None, event);
                }
                self.another(reserved, &Patience::of_a_task())
            }
            Err(step) => step,
        };
        self.lend(THE_KEY, step, Patience::of_a_task()).await
    }

    #[inline]
    fn ask(&self, asker: Asker) -> Result<Taken<F::Resource>, Step<F>> {
        let mut state = self.state.lock();
        if let Some(taken) = state.just_lend() {
            state.end_section();
            return Ok(taken);
        }
        Err(self.ask_slowly(state, asker))
    }

    #[cold]
    fn ask_slowly(&self, state: MutexGuard<'_, State<F>>, asker: Asker) -> Step<F> {
        self.section(state, |state, fx| state.begin(THE_KEY, asker, fx))
    }

    /// Takes back what is clean, or will be made so by its next borrower.
    #[inline]
    pub(super) fn stock(&self, slot: Key, resource: F::Resource, unclean: bool) {
        let mut state = self.state.lock();
        if state.may_just_be_stocked(slot) {
            state.just_stock(slot, resource, unclean);
            state.end_section();
        } else {
            self.stock_slowly(state, slot, resource, unclean);
        }
    }

    #[cold]
    fn stock_slowly(
        &self,
        state: MutexGuard<'_, State<F>>,
        slot: Key,
        resource: F::Resource,
        unclean: bool,
    ) {
        self.section(state, |state, fx| {
            state.slots[slot.index()].unclean = unclean;
            state.give_back(slot, Content::Ready(resource), fx);
        });
    }
}
