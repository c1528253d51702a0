//! Orphaned creations: their borrowers were cancelled, or served by a resource that came back first. A refill has no
//! borrower, so it is one as well.
//!
//! In a pool without a runtime a creation is left only by a borrower that is cancelled. It is dropped at once, so what it
//! holds is free, and its place goes to the next waiter. A pool with a runtime drives it on (`driving.rs`), up to
//! `create_timeout`. It then counts as a creation for the idle list: its resource goes to the oldest waiter, or becomes
//! idle. No borrower polls another's creation.
//!
//! After an outage many orphaned creations may hang. So a borrower without room makes one give way
//! in this order:
//! 1. One that is overdue: it takes longer than a tenth of `create_timeout`. The time counts from the beginning of the
//!    creation, not from its borrower's leave.
//! 2. Of those that their borrowers gave up, the one that was left last. The last one of all stays. Otherwise borrowers
//!    whose patience is shorter than a connect would restart it for ever.
//!
//! If its borrower was served by a resource that came back, a creation does not seem to hang, and stays until it is
//! overdue, as a refill does. Where loans are shorter than a connect, each connect would
//! otherwise be dropped for the next waiter, and the pool would not fill. There are at most `max_idle` orphaned
//! creations of a key.
//!
//! So a connect shorter than that tenth always ends, whatever the patience of the borrowers. After an outage, a borrower
//! with more patience than that tenth is served by a creation of its own.
//!
//! An orphaned creation that gives way counts as leaving until its task has dropped it.

use super::effects::{Effect, Effects};
use super::names::{SlotKey, SubKey};
use super::slot::{GivesWay, Slot, SlotState};
use super::state::{Grant, Outcome, State};
use crate::kernel::collections::wait_queue::WaiterKey;
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Returns the ticket of the oldest borrower that creates, if a resource of its key is idle.
    pub(crate) fn creating_ticket(&self, key: SubKey) -> Option<u64> {
        let sub = &self.subs[key];
        sub.creating.first().filter(|_| sub.available() > 0).map(|(ticket, _)| ticket)
    }

    /// A borrower waits for a resource that comes back, beside its creation.
    pub(crate) fn join_creating(
        &mut self,
        slot: SlotKey,
        ticket: u64,
        fx: &mut Effects<F>,
    ) -> WaiterKey {
        let waiter = self.waiters.add_task();
        let entry = &mut self.slots[slot];
        let key = entry.key;
        entry.waiter = Some(waiter);
        self.subs.touch(key).creating.set(&mut self.slots, slot, Some(ticket));
        self.creating += 1;
        // A resource may have come back since the creation began. The borrower looks for its grant next.
        self.settle(fx);
        waiter
    }

    /// The borrower's own creation has ended, or the borrower leaves.
    pub(crate) fn leave_creating(&mut self, slot: SlotKey) {
        let entry = &mut self.slots[slot];
        let key = entry.key;
        entry.waiter = None;
        self.subs.touch(key).creating.set(&mut self.slots, slot, None);
        self.creating -= 1;
    }

    /// Grants an idle resource of the key to the oldest borrower that creates. Its loan passes
    /// from its creation to the resource, so `active` stays.
    #[cold]
    pub(crate) fn serve_creation(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let Some(next) = self.next_fresh_idle(key, true, fx) else { return };
        let sub = self.subs.touch(key);
        let slot = sub.creating.pop_first(&mut self.slots).expect("it is in line");
        self.creating -= 1;
        let waiter = self.slots[slot].waiter.take().expect("it waits");
        self.end_loan(slot);
        self.orphan(slot, GivesWay::No);
        self.remove_idle(next);
        self.slots[next].state = SlotState::Lent;
        self.subs.touch(key).active += 1;
        self.active += 1;
        let grant = Outcome::Granted(Grant { slot: next, victim: None });
        fx.push(Effect::Wake(self.waiters.resolve(waiter, grant)));
    }

    /// Turns the place of a borrower's creation into that of an orphaned one.
    fn orphan(&mut self, slot: SlotKey, gives_way: GivesWay) {
        let entry = &mut self.slots[slot];
        entry.state = SlotState::Adding;
        let key = entry.key;
        self.subs.touch(key).adding += 1;
        self.push_orphan(slot, gives_way);
    }

    pub(crate) fn push_orphan(&mut self, slot: SlotKey, gives_way: GivesWay) {
        let entry = &mut self.slots[slot];
        entry.gives_way = gives_way;
        let of_key = self.subs.touch(entry.key);
        match gives_way {
            GivesWay::No => {
                of_key.orphans.push_back(&mut self.slots, slot);
                self.orphans.push_back(&mut self.slots, slot);
            }
            GivesWay::UnlessLast => {
                of_key.orphans.push_front(&mut self.slots, slot);
                self.orphans.push_front(&mut self.slots, slot);
            }
            GivesWay::Always => {
                of_key.overdue.push_back(&mut self.slots, slot);
                self.overdue.push_back(&mut self.slots, slot);
            }
        }
    }

    /// Notes that the orphaned creation takes long, so it may hang: it gives way to a borrower without room.
    pub(crate) fn note_overdue(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        if !self.slots[slot].age.is_linked() {
            // It gave way meanwhile.
            return;
        }
        let waiter = self.end_orphan(slot);
        self.slots[slot].waiter = waiter;
        self.push_orphan(slot, GivesWay::Always);
        self.make_way_for_line(self.slots[slot].key, fx);
    }

    /// Returns an orphaned creation of the key.
    pub(crate) fn orphan_of(&self, key: SubKey) -> Option<SlotKey> {
        let sub = &self.subs[key];
        sub.orphans.front().or_else(|| sub.overdue.front())
    }

    /// Leaves a borrower's creation. Returns whether the pool drives it on; if not, the caller drops it, and then gives
    /// its place back.
    pub(crate) fn leave_creation(
        &mut self,
        slot: SlotKey,
        drives: bool,
        fx: &mut Effects<F>,
    ) -> bool {
        let Slot { state, key, epoch, .. } = self.slots[slot];
        let sub = &self.subs[key];
        let beside = sub.idle.len() + sub.adding - usize::from(state == SlotState::Adding);
        if !drives || self.closed || epoch != self.epoch || beside >= self.limits.max_idle() {
            return false;
        }
        match state {
            SlotState::Adding => {}
            SlotState::Lent => {
                self.end_loan(slot);
                self.orphan(slot, GivesWay::UnlessLast);
                // A waiter that is served needs no place.
                self.settle(fx);
                self.make_way_for_line(key, fx);
            }
            // It gave way already.
            _ => return false,
        }
        true
    }

    /// Leaves a creation for the idle list. Returns whether the pool drives it on.
    pub(crate) fn leave_addition(
        &mut self,
        slot: SlotKey,
        drives: bool,
        fx: &mut Effects<F>,
    ) -> bool {
        let entry = &mut self.slots[slot];
        // A refill may have given way already.
        if !drives || self.closed || entry.state != SlotState::Adding {
            return false;
        }
        if entry.age.is_linked() {
            // A refill stays what it is, but the maintenance does not wait for it any more.
            entry.waiter = None;
            return true;
        }
        let key = entry.key;
        self.push_orphan(slot, GivesWay::UnlessLast);
        self.make_way_for_line(key, fx);
        true
    }

    /// Ends an orphaned creation. Returns the task that drives it on, if it has begun.
    pub(crate) fn end_orphan(&mut self, slot: SlotKey) -> Option<WaiterKey> {
        let entry = &mut self.slots[slot];
        if !entry.age.is_linked() {
            return None;
        }
        let waiter = entry.waiter.take();
        let sub = self.subs.touch(entry.key);
        let (of_key, of_all) = match entry.gives_way {
            GivesWay::Always => (&mut sub.overdue, &mut self.overdue),
            _ => (&mut sub.orphans, &mut self.orphans),
        };
        of_key.remove(&mut self.slots, slot);
        of_all.remove(&mut self.slots, slot);
        waiter
    }

    /// Has an orphaned creation dropped by its task. Its place counts until then.
    pub(crate) fn drop_orphan(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        let waiter = self.end_orphan(slot);
        self.end_life(slot);
        let entry = &mut self.slots[slot];
        entry.state = SlotState::Leaving;
        let key = entry.key;
        let sub = self.subs.touch(key);
        sub.adding -= 1;
        sub.leaving += 1;
        self.leaving += 1;
        if let Some(waiter) = waiter {
            fx.push(Effect::Wake(self.waiters.resolve(waiter, Outcome::GivesWay)));
        }
    }

    /// Makes an orphaned creation give way to a waiter of the key, if only the totals keep the waiter from creating.
    pub(crate) fn make_way(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let sub = &self.subs[key];
        if sub.queue.is_empty() || !self.may_lend(sub) {
            return;
        }
        let (overdue, left_last, number) = if sub.total >= self.limits.max_total_per_key {
            (sub.overdue.front(), sub.orphans.front(), sub.orphans.len())
        } else if self.total >= self.limits.max_total {
            (self.overdue.front(), self.orphans.front(), self.orphans.len())
        } else {
            return;
        };
        let was_given_up = |slot: &SlotKey| self.slots[*slot].gives_way == GivesWay::UnlessLast;
        let left_last = left_last.filter(was_given_up).filter(|_| number > 1);
        if let Some(orphan) = overdue.or(left_last) {
            self.drop_orphan(orphan, fx);
        }
    }

    /// The same for the waiters of the key, and else for the oldest waiter, after a creation of the key was left.
    fn make_way_for_line(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.make_way(key, fx);
        if let Some(first) = self.first_in_line().filter(|first| *first != key) {
            self.make_way(first, fx);
        }
    }
}
