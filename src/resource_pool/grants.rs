//! Grants: resources and places that are reserved for a waiter until it picks them up.
//!
//! A waiter picks its grant up when its thread or task runs next, which may be much later. By then the pool may have
//! been cleared, or the resource may have expired. So the waiter checks its grant as a borrower checks an idle
//! resource, and does not use an outdated one (PROP-RP-FRESH, PROP-RP-CLEAR-ALL).
//!
//! The waiter keeps its turn (PROP-RP-KEEPS-PLACE). It takes the next idle resource; without one, it destroys the
//! outdated resource and creates another in its place. An empty place never expires; `clear_all` only renumbers it.
//!
//! A waiter that gives up passes on only a resource that may still be lent. If no other waiter takes it, it becomes
//! idle and its idle time starts then, as after a loan.

use super::effects::{Dead, Effects};
use super::factory::Form;
use super::slot::{Content, Place};
use super::state::{Grant, State, Step, ToCreate};
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
    pub(super) fn pick_up_later(&mut self, grant: Grant, fx: &mut Effects<F>) -> Step<F> {
        let slot = grant.slot;
        if !self.is_outdated(slot) {
            return self.pick_up(grant, fx);
        }
        match self.slots[slot.index()].content.take() {
            Content::Nothing => {
                self.reset_slot(slot);
                self.pick_up(grant, fx)
            }
            content => self.replace(slot, content, fx),
        }
    }

    /// Returns whether a granted resource must not be lent any more.
    pub(super) fn is_outdated(&self, slot: Key) -> bool {
        let entry = &self.slots[slot.index()];
        let expired = match entry.content {
            // The lifetime begins with the creation.
            Content::Nothing => false,
            Content::Ready(_) | Content::Unfinished(_) => entry.expired || self.has_expired(slot),
        };
        expired || entry.epoch != self.epoch
    }

    /// Replaces an outdated grant for the same borrower; the old resource leaves.
    fn replace(&mut self, slot: Key, old: Content<F>, fx: &mut Effects<F>) -> Step<F> {
        let key = self.slots[slot.index()].key;
        let Some(next) = self.next_fresh_idle(key, true, fx) else {
            let meta = self.subs[key.index()].metadata.clone();
            let victim = Dead { slot: None, content: old, meta: meta.clone() };
            self.reset_slot(slot);
            let first = self.is_first_of_key(slot);
            let victim = Some(victim);
            return Step::Create(Box::new(ToCreate { slot, meta, first, left: None, victim }));
        };
        self.remove_idle(next);
        self.slots[next.index()].place = Place::Lent;
        let step = self.pick_up(Grant { slot: next, victim: None }, fx);
        // `active` stays: the new loan counts instead of the old one.
        self.leave(slot, old, fx);
        self.counts_changed(key, fx);
        step
    }
}
