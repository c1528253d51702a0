//! Victims: an idle resource is evicted so that another can be created in its place.
//!
//! The grant moves the victim's place in the total to the newcomer, so that no other caller gets it. The newcomer's
//! borrower destroys the victim before it creates its own resource: at most `max_total` exist (INV-RP-MAX-TOTAL).
//! - A victim of another key is *marked*: it counts for its own key, as leaving, until it is destroyed
//!   (INV-RP-MAX-TOTAL-PER-KEY). A waiter that only the victim keeps out is served after the destruction
//!   (`State::destroyed`). If the victim is spared, the waiter may get it.
//! - A victim of the newcomer's own key is *replaced*: the newcomer takes its place in the key's total too.
//!
//! A marked victim always has an owner: first its grant, which is passed on if it is not picked up, then the
//! borrower. The borrower destroys it before its next await, so a cancellation cannot leave it counted.

use super::effects::{Dead, Effects};
use super::names::{SlotKey, SubKey};
use super::slot::{Content, SlotState};
use super::state::State;
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Chooses the resource that leaves for a newcomer: an expired one of its key, else the least recently used one
    /// of any key (PROP-RP-VICTIM).
    pub(crate) fn victim(&self, expired: Option<SlotKey>) -> Option<SlotKey> {
        expired.or_else(|| self.oldest_idle())
    }

    /// Takes the victim out of the idle list and gives its place in the total to a newcomer.
    pub(crate) fn mark_for_eviction(&mut self, victim: SlotKey, newcomers: SubKey) {
        self.remove_idle(victim);
        let entry = &mut self.slots[victim];
        let key = entry.key;
        if key == newcomers {
            return self.uncount(victim, SlotState::Replaced);
        }
        entry.state = SlotState::Marked;
        let sub = self.subs.touch(key);
        entry.cleared = sub.cleared;
        sub.leaving += 1;
        self.total -= 1;
    }

    /// Gives the victim to the newcomer's borrower, which destroys it.
    pub(crate) fn take_victim(&mut self, victim: SlotKey) -> Dead<F> {
        let entry = &mut self.slots[victim];
        if entry.state == SlotState::Replaced {
            return self.remove_uncounted(victim);
        }
        let content = entry.content.take();
        let meta = self.subs[entry.key].metadata.clone();
        self.end_life(victim);
        Dead { slot: Some(victim), content, meta }
    }

    /// Puts an unneeded victim back where it was in the idle list, with its old idle time: it was not used since
    /// (PROP-RP-SPARED). If it may no longer be lent, or its key was cleared meanwhile, it leaves.
    pub(crate) fn spare_victim(&mut self, victim: SlotKey, fx: &mut Effects<F>) {
        let entry = &mut self.slots[victim];
        let (key, content) = (entry.key, entry.content.take());
        let sub = self.subs.touch(key);
        entry.expired |= entry.cleared != sub.cleared;
        if entry.state == SlotState::Marked {
            sub.leaving -= 1;
        } else {
            sub.outside -= 1;
            sub.total += 1;
        }
        self.total += 1;
        if self.must_leave(victim) || self.timed && self.has_expired(victim) {
            return self.leave(victim, content, fx);
        }
        self.reinsert_idle(victim, content);
        self.note_came(victim, key);
    }

    /// Puts a spared victim back in the order of return, which scans past older and tested resources.
    fn reinsert_idle(&mut self, slot: SlotKey, content: Content<F>) {
        let entry = &mut self.slots[slot];
        entry.state = SlotState::Idle;
        entry.content = content;
        let (key, nth) = (entry.key, entry.nth_idle);
        self.idle += 1;
        let of_key = &mut self.subs.touch(key).idle;
        let is_older = |other: &SlotKey| self.slots[*other].nth_idle < nth;
        let younger = of_key.iter(&self.slots).find(|other| !is_older(other));
        let younger_of_all = self.by_age.iter(&self.slots).find(|other| !is_older(other));
        of_key.push_before(&mut self.slots, slot, younger);
        self.by_age.push_before(&mut self.slots, slot, younger_of_all);
        if self.options.test_while_idle {
            self.turns.push_back(&mut self.slots, slot);
        }
    }
}
