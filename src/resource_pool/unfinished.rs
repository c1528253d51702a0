//! Unfinished creations in the idle list.
//!
//! A borrower, an add or a refill that is dropped leaves the creation that it began. The next one polls it on. A
//! creation may never complete, so a finished resource is worth more:
//! - A borrower gets an unfinished creation only if no finished resource is idle; the one left first goes first
//!   (PROP-RP-FINISHED-FIRST).
//! - It is the first victim for another key, and the first to leave if more than `max_idle` are idle.
//! - It counts for `max_idle` but not for `min_idle`, which counts ready resources and so never protects it.
//! - It is taken over once. If the second caller leaves it too, it is dropped and its place given back
//!   (PROP-RP-OFFERED-ONCE; `creation.rs`): a hanging creation delays at most two callers.
//!
//! An add or a refill polls the key's first unfinished creation on before it begins one, and needs no free place for
//! it. So creations left in the last places keep no add from succeeding and no key below its minimum
//! (PROP-RP-REFILLED). If the creation fails, the add fails too: unlike a borrower it has no turn to keep.
//!
//! The lifetime counts from the beginning of the creation, the idle time from when it was left. Only a grant that is
//! not picked up restarts the idle time: no caller has polled the creation since.
//!
//! Unfinished creations stand in lists of their own, so a search for a finished resource never passes over them.

use super::factory::{Creation, Form};
use super::slot::{Content, Place};
use super::state::State;
use crate::clock::Time;
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
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

    /// Takes a creation for an add or a refill to poll on.
    pub(super) fn take_unfinished(&mut self, slot: Key) -> Creation<F> {
        self.remove_unfinished(slot);
        let entry = &mut self.slots[slot.index()];
        entry.place = Place::Adding;
        match entry.content.take() {
            Content::Unfinished(creation) => *creation,
            Content::Ready(_) | Content::Nothing => {
                unreachable!("an unfinished slot holds a creation")
            }
        }
    }

    /// Returns when the oldest unfinished creation exceeds its idle time.
    pub(super) fn unfinished_due(&self) -> Option<Time> {
        let time = self.soft_max_idle_time.or(self.max_idle_time)?;
        let first = self.unfinished.front()?;
        Some(self.slots[first.index()].since.plus_span(time))
    }

    /// Returns the first eviction victim of all keys: an unfinished creation, else the resource that came back
    /// longest ago (PROP-RP-VICTIM).
    pub(super) fn least_recently_used(&self) -> Option<Key> {
        self.unfinished.front().or_else(|| self.oldest_idle())
    }

    /// Puts a spared victim back in the order of return, which scans past older and tested resources.
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
