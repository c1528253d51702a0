//! Stock that is not finished: creations that were left by who had begun them, to borrow or to add.
//!
//! What an asynchronous factory has begun to make is not thrown away when nobody waits for it any more: the
//! next borrower polls it on, or who adds next, or fills up stock. But nobody knows whether it will ever come to an end, so it is worth less than
//! anything that has:
//! - it is lent only if there is no finished stock, and then the one that was left first
//!   (PROP-RP-FINISHED-FIRST);
//! - it is the first to make room: for another key, and for what comes back where as many are idle as may be;
//! - it counts for `max_idle` and not for `min_idle`, which is about what is ready; no minimum protects it from
//!   the times of idle ones;
//! - it is taken over once: if who does leaves it too, it is dropped, and its place given back
//!   (PROP-RP-OFFERED-ONCE; `creation.rs`). So a creation that hangs costs two their patience, and no third.
//!
//! Who makes stock takes over what was left of the key before it begins anything itself, the first first, and
//! needs no place for it. So what was left keeps no key from its minimum, and nobody from adding, where it takes
//! the last place (PROP-RP-REFILLED). If it fails, so does who adds: there is nothing to keep its place for.
//!
//! It ages from its beginning: its lifetime from when it was begun, its time as an idle one from when it was
//! left, and neither begins again. (It does if it was granted and never picked up: nobody has waited for
//! it then.)
//!
//! It has lists of its own, of each key and of all, so that nobody who looks for what is finished has to pass
//! over it: what is left goes to their ends, and those in front are the first to be taken.

use super::factory::{Creation, Form};
use super::slot::{Content, Place};
use super::state::State;
use crate::clock::Time;
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
    /// It has become idle: the last that will be taken.
    pub(super) fn push_unfinished(&mut self, slot: Key, creation: Content<F>) {
        let entry = &mut self.slots[slot.index()];
        entry.content = creation;
        let key = entry.key;
        self.subs[key.index()].unfinished.push_back(&mut self.slots, slot);
        self.unfinished.push_back(&mut self.slots, slot);
    }

    #[cold]
    pub(super) fn remove_unfinished(&mut self, slot: Key) {
        let key = self.slots[slot.index()].key;
        self.subs[key.index()].unfinished.remove(&mut self.slots, slot);
        self.unfinished.remove(&mut self.slots, slot);
        self.idle -= 1;
    }

    /// It is polled on for stock.
    pub(super) fn take_unfinished(&mut self, slot: Key) -> Creation<F> {
        self.remove_unfinished(slot);
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Adding;
        match entry.content.take() {
            Content::Unfinished(creation) => *creation,
            Content::Ready(_) | Content::Nothing => unreachable!("it is not finished"),
        }
    }

    /// When the first of them has been idle for too long.
    pub(super) fn unfinished_due(&self) -> Option<Time> {
        let time = self.soft_max_idle_time.or(self.max_idle_time)?;
        let first = self.unfinished.front()?;
        Some(self.slots[first.index()].since.plus_span(time))
    }

    /// What makes room first: of any key, what is not finished, else what came back longest ago
    /// (PROP-RP-VICTIM).
    pub(super) fn least_recently_used(&self) -> Option<Key> {
        self.unfinished.front().or_else(|| self.oldest_idle())
    }

    /// What was to make room, finished or not, goes back to where it was: past those that are older and came
    /// back before it, or are being tested.
    pub(super) fn reinsert_idle(&mut self, slot: Key, content: Content<F>) {
        let unfinished = matches!(content, Content::Unfinished(_));
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Idle;
        entry.content = content;
        let (key, nth) = (entry.key, entry.nth_idle);
        self.idle += 1;
        let sub = &mut self.subs[key.index()];
        let (of_key, of_all) = match unfinished {
            true => (&mut sub.unfinished, &mut self.unfinished),
            false => (&mut sub.idle, &mut self.by_age),
        };
        let is_older = |other: &Key| self.slots[other.index()].nth_idle < nth;
        let younger = of_key.iter(&self.slots).find(|other| !is_older(other));
        let younger_of_all = of_all.iter(&self.slots).find(|other| !is_older(other));
        of_key.push_before(&mut self.slots, slot, younger);
        of_all.push_before(&mut self.slots, slot, younger_of_all);
        if self.options.test_while_idle && !unfinished {
            self.turns.push_back(&mut self.slots, slot);
        }
    }
}
