//! Creates resources for the idle list: for `add`, or to refill a key below `min_idle`.
//!
//! `min_idle` applies to a key after its first successful creation, while a resource of it is lent, idle or being
//! created for the idle list. So the pool alone never retries a key whose creation always fails. A key whose last
//! resource was evicted, invalidated or cleared is forgotten (`keys.rs`), until the next borrow or `add`. The one
//! key of a pool without keys is never forgotten and always refilled.
//!
//! After a failure a key backs off for half a second, doubled with each further failure. A new resource that has
//! expired before it reaches the idle list counts as a failure.
//!
//! Where the pool creates, a refill is an order (`orders.rs`): the refills of all keys are in flight together, and
//! one that hangs keeps no other key from its minimum. Without a runtime the maintenance creates one resource after
//! the other.
//!
//! A close drops a refill in either case. It does not interrupt an `add`: its caller awaits the creation. The
//! resource is destroyed once created. If the future of an `add` is dropped, so is its creation.
//!
//! Keys below their minimum are in a list, the longest waiting first, or in a heap by the end of their back-off. (A
//! heap costs O(log n), but back-offs differ.) So a refill takes no search, and a full pool causes no wake-up.

use super::effects::{Dead, Effect, Effects};
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::names::{Meta, SlotKey, SubKey};
use super::refusal::NotAdded;
use super::slot::{Content, Order, Slot, SlotState, Standing, Sub};
use super::state::State;
use crate::kernel::clock::Time;
use crate::resource_pool::api::factory::Form;
use std::time::Duration;

/// The back-off after a first failure.
const BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// A slot to create an idle resource in, and its key.
pub(crate) struct Vacancy<F: Form> {
    pub(crate) slot: SlotKey,
    pub(crate) meta: Meta<F>,
}

/// The next step of a refill.
pub(crate) enum NextRefill<F: Form> {
    This(Vacancy<F>),
    /// A resource was ordered, or the back-off of one key has ended: look again.
    Again,
    Nothing,
}

/// How a new resource reaches the idle list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    InTime,
    /// Its lifetime ended before, or its creation failed.
    Expired,
    /// The pool was closed before.
    Closed,
}

impl<F: Form> State<F> {
    /// Returns whether `min_idle` applies to the key.
    fn is_kept(&self, sub: &Sub<F>) -> bool {
        sub.made && (sub.permanent || sub.total > sub.leaving)
    }
    /// Returns whether the key is below `min_idle` and its own limits allow a refill.
    fn is_below_minimum(&self, sub: &Sub<F>) -> bool {
        // The creations that waiters will take, and those that may hang, are not idle soon.
        let of_callers = sub.adding - sub.orders.len() - sub.overdue.len();
        let taken = if self.creates { self.lendable(sub) } else { 0 };
        let spare = sub.orders.len().saturating_sub(taken);
        !self.closed
            && sub.idle.len() + of_callers + spare < self.limits.min_idle
            && self.has_room_for_idle(sub)
            && sub.total < self.limits.max_total_per_key
            && self.is_kept(sub)
    }
    fn has_room_for_idle(&self, sub: &Sub<F>) -> bool {
        sub.idle.len().saturating_add(sub.adding) < self.limits.max_idle()
    }

    /// Updates the key's place among the keys below their minimum.
    pub(crate) fn watch_minimum(&mut self, key: SubKey) {
        let sub = &self.subs[key];
        let below = self.is_below_minimum(sub);
        let later = sub.back_off_until;
        self.stand_below_minimum(key, below.then_some(Standing { later }));
    }

    fn stand_below_minimum(&mut self, key: SubKey, standing: Option<Standing>) {
        let stood = std::mem::replace(&mut self.subs.links()[key].standing, standing);
        if stood == standing {
            return;
        }
        match stood {
            None => {}
            Some(Standing { later: None }) => self.below_minimum.remove(self.subs.links(), key),
            Some(_) => self.backing_off.set(self.subs.links(), key, None),
        }
        match standing {
            None => {}
            Some(Standing { later: None }) => self.below_minimum.push_back(self.subs.links(), key),
            Some(Standing { later }) => self.backing_off.set(self.subs.links(), key, later),
        }
    }

    fn has_room(&self) -> bool {
        self.total < self.limits.max_total && !(self.creates && self.creates_enough())
    }

    /// Removes a forgotten key from the keys below their minimum.
    pub(crate) fn forget_refills(&mut self, key: SubKey) {
        self.stand_below_minimum(key, None);
    }

    /// Schedules the next refill, if the total has room for it.
    pub(crate) fn watch_room(&mut self, fx: &mut Effects<F>) {
        if self.below_minimum.is_empty() && self.backing_off.is_empty() {
            return;
        }
        if let Some((at, key)) = self.next_refill_due() {
            self.schedule(MaintenanceTask::Refill, key, Some(at), self.clock.now(), fx);
        }
    }

    /// Orders a resource for the next key to refill, or returns a slot for it: the key that waits longest.
    ///
    /// Before that, keys whose back-off has ended rejoin the others: one in each section, so that it stays O(1).
    pub(crate) fn next_refill(&mut self, fx: &mut Effects<F>) -> NextRefill<F> {
        // Free places belong to the waiters in line. In a closed pool, no key is below its minimum.
        if self.is_needed() {
            return NextRefill::Nothing;
        }
        if let Some((until, key)) = self.backing_off.first() {
            if self.clock.now() >= until {
                self.subs.touch(key).back_off_until = None;
                return NextRefill::Again;
            }
        }
        let Some(key) = self.first_below_minimum() else { return NextRefill::Nothing };
        if self.creates {
            self.order(key, None, fx);
            return NextRefill::Again;
        }
        let Some(vacancy) = self.vacancy(key) else { return NextRefill::Nothing };
        // No caller waits for it: a close drops it.
        self.list_order(vacancy.slot);
        NextRefill::This(vacancy)
    }

    fn vacancy(&mut self, key: SubKey) -> Option<Vacancy<F>> {
        let slot = self.reserve_idle(key)?;
        let sub = &self.subs[key];
        Some(Vacancy { slot, meta: sub.metadata.clone() })
    }

    fn first_below_minimum(&self) -> Option<SubKey> {
        self.below_minimum.front().filter(|_| self.has_room())
    }

    /// Returns when the next key can be refilled, and which.
    pub(crate) fn next_refill_due(&self) -> Option<(Time, SubKey)> {
        if self.is_needed() || !self.has_room() {
            return None;
        }
        let at_once = self.below_minimum.front().map(|key| (self.clock.now(), key));
        at_once.or_else(|| self.backing_off.first())
    }

    pub(crate) fn begin_add(&mut self, key: SubKey) -> Result<Vacancy<F>, NotAdded> {
        if self.closed {
            return Err(NotAdded::Closed);
        }
        self.vacancy(key).ok_or(NotAdded::Full)
    }

    /// Reserves a slot for a new idle resource.
    fn reserve_idle(&mut self, key: SubKey) -> Option<SlotKey> {
        let sub = &self.subs[key];
        if !self.has_room_for_idle(sub) {
            return None;
        }
        if self.total >= self.limits.max_total || sub.total >= self.limits.max_total_per_key {
            return None;
        }
        let slot = self.reserve(key, SlotState::Adding);
        self.subs.touch(key).adding += 1;
        Some(slot)
    }

    /// Ends a creation for the idle list: `content` is empty if it failed.
    pub(crate) fn added(
        &mut self,
        slot: SlotKey,
        content: Content<F>,
        fx: &mut Effects<F>,
    ) -> Arrival {
        let Slot { key, state, .. } = self.slots[slot];
        if state == SlotState::Leaving {
            // It was dropped meanwhile, and counts as leaving.
            self.drop_late(slot, content, fx);
            return Arrival::Expired;
        }
        let ordered = self.slots[slot].order != Order::None;
        self.end_order(slot);
        self.end_addition(key, fx);
        if let Content::Nothing = content {
            self.remove(slot);
            return Arrival::Expired;
        }
        let arrival = match self.slots[slot].expired || self.has_outlived(slot) {
            _ if self.closed => Arrival::Closed,
            true => Arrival::Expired,
            false => Arrival::InTime,
        };
        self.become_idle(slot, content, fx);
        if ordered && self.slots[slot].state == SlotState::Idle {
            // If no waiter takes it, it is as good as any other (`keep_up`).
            self.came = Some(slot);
        }
        arrival
    }

    /// Counts one creation for the idle list less.
    pub(crate) fn end_addition(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.subs.touch(key).adding -= 1;
        self.let_fillers_look(fx);
    }

    fn drop_late(&mut self, slot: SlotKey, content: Content<F>, fx: &mut Effects<F>) {
        match content {
            Content::Nothing => self.destroyed(slot),
            Content::Ready(_) => {
                let meta = self.subs[self.slots[slot].key].metadata.clone();
                fx.push(Effect::Destroy(Dead { slot: Some(slot), content, meta }));
            }
        }
    }

    /// Puts a new resource into its slot. `is_noted`: its key notes whether it came in time.
    pub(crate) fn put(
        &mut self,
        slot: SlotKey,
        mut loan: Box<Loan<F>>,
        is_noted: bool,
        fx: &mut Effects<F>,
    ) -> Arrival {
        let Slot { key, order, .. } = self.slots[slot];
        loan.fresh = self.creates && order != Order::None;
        let arrival = self.added(slot, Content::Ready(loan), fx);
        if is_noted {
            self.note_result(key, arrival == Arrival::InTime);
        }
        arrival
    }

    /// Frees a slot without a resource. Returns whether its order was lost with the runtime.
    pub(crate) fn unfilled(
        &mut self,
        slot: SlotKey,
        is_ordered: bool,
        fx: &mut Effects<F>,
    ) -> bool {
        if is_ordered {
            return self.order_lost(slot, fx);
        }
        self.added(slot, Content::Nothing, fx);
        false
    }

    /// Notes whether the creation in the slot succeeded.
    ///
    /// Call this before another section can see the slot free: it would retry at once, or forget the key.
    pub(crate) fn note_refill(&mut self, slot: SlotKey, made: bool) {
        self.note_result(self.slots[slot].key, made);
    }
    fn note_result(&mut self, key: SubKey, made: bool) {
        let sub = self.subs.touch(key);
        if made {
            (sub.failures, sub.back_off_until) = (0, None);
        } else {
            let pause = BACK_OFF.saturating_mul(1 << sub.failures.min(10)).min(LONGEST_BACK_OFF);
            sub.failures += 1;
            sub.back_off_until = Some(self.clock.now().plus(pause));
        }
    }

    /// Returns whether the slot's resource is the first of its key, from which on `min_idle` applies.
    pub(crate) fn is_first_of_key(&self, slot: SlotKey) -> bool {
        let sub = &self.subs[self.slots[slot].key];
        self.limits.min_idle > 0 && !sub.made
    }
    /// Notes that the first resource of a key was created and is about to be lent.
    pub(crate) fn note_first_created(&mut self, slot: SlotKey) {
        let key = self.slots[slot].key;
        self.subs.touch(key).made = true;
    }

    /// Returns whether each key below its minimum is in its list or heap.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn below_minimum_is_known(&self) -> bool {
        let keys = || self.subs.iter().map(|(_, sub)| sub);
        let right = keys().all(|sub| {
            let later = sub.back_off_until;
            sub.standing == self.is_below_minimum(sub).then_some(Standing { later })
                && sub.below_minimum.is_linked() == sub.standing.is_some_and(|s| s.later.is_none())
        });
        let stands = |(until, key): (Time, SubKey)| {
            self.subs[key].standing == Some(Standing { later: Some(until) })
        };
        let later = keys().filter(|sub| sub.standing.is_some_and(|s| s.later.is_some()));
        right && self.backing_off.iter().all(stands) && later.count() == self.backing_off.len()
    }
}
