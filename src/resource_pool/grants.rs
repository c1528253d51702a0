//! What was handed to a waiter that comes for it later.
//!
//! A waiter is served by whoever frees something, and comes for that when its thread or its task runs next: at
//! once, most often, but perhaps much later. By then all may have been cleared, a lifetime may have ended, or the
//! resource may have been nobody's for longer than one may be idle. So who comes looks at what it was handed as a
//! borrower looks at stock that it comes upon: what must not be lent any more is not lent (PROP-RP-FRESH,
//! PROP-RP-CLEAR-ALL).
//!
//! The waiter keeps its turn (PROP-RP-KEEPS-PLACE). It takes the next in stock; if there is none, the place is its
//! own, and it makes one there, once it has destroyed what it was handed. A place that it was handed is
//! never too old, for nothing has been made in it yet; after a clear of all it is another one. Who gives up instead passes on only what may be lent; if nobody else waits for
//! it, it becomes idle then, and its time as an idle one begins, as if it had been lent.

use super::effects::{Dead, Effects};
use super::factory::Form;
use super::slot::{Content, Place};
use super::state::{Grant, State, Step, ToCreate};
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
    /// A waiter comes for what it was handed.
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

    /// Whether what was handed over must not be lent any more.
    pub(super) fn is_outdated(&self, slot: Key) -> bool {
        let entry = &self.slots[slot.index()];
        let over = match entry.content {
            // Its life begins with what is made in it.
            Content::Nothing => false,
            Content::Ready(_) | Content::Unfinished(_) => entry.expired || self.has_expired(slot),
        };
        over || entry.epoch != self.epoch
    }

    /// Another for the same borrower, and the old one leaves.
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
        // One loan is as good as the other.
        self.leave(slot, old, fx);
        self.counts_changed(key, fx);
        step
    }
}
