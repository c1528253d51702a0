//! The short way: what is in stock is lent, and comes back to a pool in which nobody waits.
//!
//! In a pool without keys, minimum and times this is nearly every borrow and return, and all that there is
//! to do is to move one resource between its slot and its borrower. So that is done here by itself, in one
//! section each; whatever is not that simple is left to `state.rs` and `stock.rs`, which do the same and
//! everything else. The invariants are asserted here as there.

use super::factory::Form;
use super::pool::Inner;
use super::slot::{Content, Place};
use super::state::State;
use crate::slab_list::Key;

impl<F: Form> State<F> {
    /// Whether nobody waits, and nothing need be looked after but the stock itself.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.plain && self.waiting == 0 && !self.closed
    }

    /// The next one in stock, if it is finished and clean.
    #[inline]
    fn lend_quickly(&mut self) -> Option<(Key, F::Resource)> {
        let sub = &mut self.subs[0];
        if !self.plain || self.waiting != 0 || self.closed || sub.active >= self.limits.max_active {
            return None;
        }
        let at = if self.options.fifo { sub.idle.front() } else { sub.idle.back() };
        let slot = at?;
        let entry = &mut self.slots[slot.index()];
        if entry.unclean || !matches!(entry.content, Content::Ready(_)) {
            return None;
        }
        let Content::Ready(resource) = entry.content.take() else { return None };
        entry.place = Place::Lent;
        sub.active += 1;
        self.active += 1;
        self.idle -= 1;
        sub.idle.remove(&mut self.slots, slot);
        Some((slot, resource))
    }

    /// Into stock, if there is room and nothing else to do with it.
    #[inline]
    fn stock_quickly(&mut self, slot: Key, resource: F::Resource) -> Result<(), F::Resource> {
        let quiet = self.is_quiet();
        let sub = &mut self.subs[0];
        let entry = &mut self.slots[slot.index()];
        if !quiet
            || sub.idle.len() >= self.limits.max_idle()
            || self.total - self.leaving > self.limits.max_total
            || entry.epoch != self.epoch
        {
            return Err(resource);
        }
        entry.place = Place::Idle;
        entry.content = Content::Ready(resource);
        sub.active -= 1;
        self.active -= 1;
        self.idle += 1;
        sub.idle.push_back(&mut self.slots, slot);
        Ok(())
    }
}

impl<F: Form> Inner<F> {
    #[inline]
    pub(super) fn lend_quickly(&self) -> Option<(Key, F::Resource)> {
        let mut state = self.state.lock();
        let lent = state.lend_quickly();
        state.end_section();
        lent
    }

    #[inline]
    pub(super) fn stock_quickly(
        &self,
        slot: Key,
        resource: F::Resource,
    ) -> Result<(), F::Resource> {
        let mut state = self.state.lock();
        let done = state.stock_quickly(slot, resource);
        state.end_section();
        done
    }
}
