//! Orphaned creations: their borrowers were cancelled, or served by a resource that came back first.
//!
//! A pool without a runtime drops such a creation at once, so what it holds is free, and its place goes to the next
//! waiter. A pool with a runtime drives it on (`driving.rs`), up to `create_timeout`. It then counts as a creation for
//! the idle list: its resource goes to the oldest waiter, or becomes idle. No borrower polls another's creation.
//!
//! After an outage many orphaned creations may hang. So a borrower without room makes one give way
//! (PROP-RP-GIVES-WAY): the one that was left last. The last one of all stays. Otherwise borrowers whose patience is
//! shorter than a connect would restart it for ever.
//!
//! Only a creation whose borrower gave it up gives way. If the borrower was served by a resource that came back, the
//! creation does not seem to hang, and stays (PROP-RP-SERVED-STAYS). Where loans are shorter than a connect, each
//! connect would otherwise be dropped for the next waiter, and the pool would not fill. There are at most `max_idle`
//! orphaned creations of a key.
//!
//! An orphaned creation that gives way counts as leaving until its task has dropped it.

use super::effects::{Effect, Effects};
use super::factory::Form;
use super::slot::{Slot, SlotState};
use super::state::{Grant, Outcome, State};
use crate::collections::slab_list::Key;

impl<F: Form> State<F> {
    /// Returns the ticket of the oldest borrower that creates, if a resource of its key is idle.
    pub(super) fn creating_ticket(&self, key: Key) -> Option<u64> {
        let sub = &self.subs[key.index()];
        sub.creating.first().filter(|_| sub.available() > 0).map(|(ticket, _)| ticket)
    }

    /// A borrower waits for a resource that comes back, beside its creation.
    pub(super) fn join_creating(&mut self, slot: Key, ticket: u64, fx: &mut Effects<F>) -> Key {
        let waiter = self.waiters.add_task();
        let entry = &mut self.slots[slot.index()];
        let key = entry.key;
        entry.waiter = Some(waiter);
        self.subs[key.index()].creating.set(&mut self.slots, slot, Some(ticket));
        self.creating += 1;
        // A resource may have come back since the creation began.
        self.update_line(key);
        self.settle(fx);
        waiter
    }

    /// The borrower's own creation has ended, or the borrower leaves.
    pub(super) fn leave_creating(&mut self, slot: Key) {
        let entry = &mut self.slots[slot.index()];
        let key = entry.key;
        entry.waiter = None;
        self.subs[key.index()].creating.set(&mut self.slots, slot, None);
        self.creating -= 1;
        self.update_line(key);
    }

    /// Grants an idle resource of the key to the oldest borrower that creates (PROP-RP-FIRST-BACK). Its loan passes
    /// from its creation to the resource, so `active` stays.
    #[cold]
    pub(super) fn serve_creation(&mut self, key: Key, fx: &mut Effects<F>) {
        let Some(next) = self.next_fresh_idle(key, true, fx) else {
            return self.update_line(key);
        };
        let sub = &mut self.subs[key.index()];
        let slot = sub.creating.pop_first(&mut self.slots).expect("it is in line");
        self.creating -= 1;
        let waiter = self.slots[slot.index()].waiter.take().expect("it waits");
        self.end_loan(slot);
        self.orphan(slot, false);
        self.remove_idle(next);
        self.slots[next.index()].state = SlotState::Lent;
        self.subs[key.index()].active += 1;
        self.active += 1;
        let grant = Outcome::Granted(Grant { slot: next, victim: None });
        fx.push(Effect::Wake(self.waiters.resolve(waiter, grant)));
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
        self.update_line(key);
    }

    /// Turns the place of a borrower's creation into that of an orphaned one.
    fn orphan(&mut self, slot: Key, gives_way: bool) {
        let entry = &mut self.slots[slot.index()];
        entry.state = SlotState::Adding;
        let key = entry.key;
        self.subs[key.index()].adding += 1;
        self.push_orphan(slot, gives_way);
    }

    fn push_orphan(&mut self, slot: Key, gives_way: bool) {
        let entry = &mut self.slots[slot.index()];
        entry.gives_way = gives_way;
        let of_key = &mut self.subs[entry.key.index()].orphans;
        if gives_way {
            of_key.push_front(&mut self.slots, slot);
            self.orphans.push_front(&mut self.slots, slot);
        } else {
            of_key.push_back(&mut self.slots, slot);
            self.orphans.push_back(&mut self.slots, slot);
        }
    }

    /// Leaves a borrower's creation. Returns whether the pool drives it on; if not, the caller drops it, and then gives
    /// its place back.
    pub(super) fn leave_creation(&mut self, slot: Key, drives: bool, fx: &mut Effects<F>) -> bool {
        let Slot { state, key, epoch, .. } = self.slots[slot.index()];
        let sub = &self.subs[key.index()];
        let beside = sub.idle.len() + sub.adding - usize::from(state == SlotState::Adding);
        if !drives || self.closed || epoch != self.epoch || beside >= self.limits.max_idle() {
            return false;
        }
        match state {
            SlotState::Adding => {}
            SlotState::Lent => {
                self.end_loan(slot);
                self.orphan(slot, true);
                self.counts_changed(key, fx);
                self.make_way_for_line(key, fx);
                if self.limits.min_idle > 0 {
                    self.watch_minimum(key, fx);
                }
            }
            // It gave way already.
            _ => return false,
        }
        true
    }

    /// Leaves a creation for the idle list. Returns whether the pool drives it on.
    pub(super) fn leave_addition(&mut self, slot: Key, drives: bool, fx: &mut Effects<F>) -> bool {
        if !drives || self.closed {
            return false;
        }
        self.push_orphan(slot, true);
        self.make_way_for_line(self.slots[slot.index()].key, fx);
        true
    }

    /// Ends an orphaned creation. Returns the task that drives it on, if it has begun.
    pub(super) fn end_orphan(&mut self, slot: Key) -> Option<Key> {
        let entry = &mut self.slots[slot.index()];
        if !entry.age.is_linked() {
            return None;
        }
        let (key, waiter) = (entry.key, entry.waiter.take());
        self.subs[key.index()].orphans.remove(&mut self.slots, slot);
        self.orphans.remove(&mut self.slots, slot);
        waiter
    }

    /// Has an orphaned creation dropped by its task. Its place counts until then.
    pub(super) fn drop_orphan(&mut self, slot: Key, fx: &mut Effects<F>) {
        let waiter = self.end_orphan(slot);
        self.end_life(slot);
        let entry = &mut self.slots[slot.index()];
        entry.state = SlotState::Leaving;
        let key = entry.key;
        let sub = &mut self.subs[key.index()];
        sub.adding -= 1;
        sub.leaving += 1;
        self.leaving += 1;
        if let Some(waiter) = waiter {
            fx.push(Effect::Wake(self.waiters.resolve(waiter, Outcome::GivesWay)));
        }
        if self.limits.min_idle > 0 {
            self.watch_minimum(key, fx);
        }
    }

    /// Makes an orphaned creation give way to a waiter of the key, if only the totals keep the waiter from creating.
    pub(super) fn make_way(&mut self, key: Key, fx: &mut Effects<F>) {
        let sub = &self.subs[key.index()];
        if sub.queue.is_empty() || !self.may_lend(sub) {
            return;
        }
        let (first, number) = if sub.total >= self.limits.max_total_per_key {
            (sub.orphans.front(), sub.orphans.len())
        } else if self.total >= self.limits.max_total {
            (self.orphans.front(), self.orphans.len())
        } else {
            return;
        };
        let gives_way = |slot: &Key| number > 1 && self.slots[slot.index()].gives_way;
        if let Some(first) = first.filter(gives_way) {
            self.drop_orphan(first, fx);
        }
    }

    /// The same for the waiters of the key, and else for the oldest waiter, after a creation of the key was left.
    fn make_way_for_line(&mut self, key: Key, fx: &mut Effects<F>) {
        self.make_way(key, fx);
        if let Some(first) = self.first_in_line().filter(|first| *first != key) {
            self.make_way(first, fx);
        }
    }
}
