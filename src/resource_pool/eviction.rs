//! What makes room: an idle resource that is destroyed, so that another can be made in its place.
//!
//! Its place in the total is the newcomer's as soon as that is granted, so that nobody else gets it. The newcomer's
//! borrower destroys it first, and only then makes its own: there are never more than `max_total`. But until then
//! there is still one of its own key. So if the newcomer is of another key, it is *condemned*: it counts for its
//! key, as one that leaves, until it has been destroyed (INV-RP-MAX-TOTAL-PER-KEY). Who waits for that key because
//! it is full by it is served by the section after its destruction (`State::destroyed`), or with the resource
//! itself, if its place was granted in vain and it stays after all. If the newcomer is of the same key, one is
//! made in the place of the other there, too: it is *replaced*, and counts no more.
//!
//! As long as it counts for its key somebody has it who takes care of that: the grant, which is passed on if nobody
//! comes for it; and then the borrower, between whose taking it and its destruction nothing can be given up.

use super::effects::{Dead, Effects};
use super::factory::Form;
use super::slot::Place;
use super::state::State;
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
    /// Out of stock: its place in the total is that of a newcomer of this key.
    pub(super) fn mark_for_eviction(&mut self, victim: Key, newcomers: Key) {
        self.remove_idle(victim);
        let entry = &mut self.slots[victim.index()];
        let key = entry.key;
        if key == newcomers {
            return self.uncount(victim, Place::Replaced);
        }
        entry.place = Place::Marked;
        let sub = &mut self.subs[key.index()];
        entry.cleared = sub.cleared;
        sub.leaving += 1;
        self.total -= 1;
    }

    /// The newcomer's borrower takes it, and destroys it.
    pub(super) fn take_victim(&mut self, victim: Key, fx: &mut Effects<F>) -> Dead<F> {
        let entry = &mut self.slots[victim.index()];
        if entry.place == Place::Replaced {
            return self.remove_uncounted(victim, fx);
        }
        let content = entry.content.take();
        let meta = self.subs[entry.key.index()].metadata.clone();
        self.end_life(victim);
        Dead { slot: Some(victim), content, meta }
    }

    /// What was to make room stays after all, where it was: it has been of no use to anybody since. Unless its
    /// key was cleared meanwhile (PROP-RP-SPARED).
    pub(super) fn spare_victim(&mut self, victim: Key, fx: &mut Effects<F>) {
        let entry = &mut self.slots[victim.index()];
        let (key, content) = (entry.key, entry.content.take());
        let sub = &mut self.subs[key.index()];
        entry.expired |= entry.cleared != sub.cleared;
        if entry.place == Place::Marked {
            sub.leaving -= 1;
        } else {
            sub.outside -= 1;
            sub.total += 1;
        }
        self.total += 1;
        if self.must_leave(victim) || self.timed && self.has_expired(victim) {
            self.leave(victim, content, fx);
            return self.counts_changed(key, fx);
        }
        self.reinsert_idle(victim, content);
        self.became_idle(victim, fx);
    }
}
