//! Orders: in a pool with a runtime the pool creates, and never a borrower.
//!
//! A borrower that finds nothing idle waits in the queue of its key, and does nothing else. A key *orders* a creation while
//! fewer of its creations are in flight than waiters that could be lent to (PROP-RP-ORDERED). The order has its place from
//! the beginning, if need be that of an idle resource of another key. A task creates and tests the resource
//! (`ordering.rs`), which then becomes idle, and so goes to the oldest waiter. A refill is an order, too (`refill.rs`).
//!
//! A borrower that leaves, or is served otherwise, leaves the creations alone. So never more are in flight than borrowers
//! have waited at the same time, beside the minimum.
//!
//! # The states of a creation
//! | `Slot::order` | in the list | counts as | next |
//! |---|---|---|---|
//! | `InTime` | `Sub::orders` | adding, creating | idle; or removed, because it failed; `Overdue` after `overdue_after`; `Dropped` |
//! | `Overdue` | `Sub::overdue` | adding | idle; or removed, because it failed; `Dropped` |
//! | `Dropped` | – | leaving, dropping | removed, once its task has dropped it |
//!
//! An overdue creation may hang, so the line does not count it, and another is ordered. Where the limits allow no other,
//! one that is overdue is dropped for the line; unless a borrower still waits that waited when it was ordered
//! (PROP-RP-DROPPED). Without this clause, a connect slower than `overdue_after` would begin again for ever. So every borrow ends,
//! also where creations hang until their limit (PROP-RP-EVERY-ORDERED-BORROW-ENDS). All other creations are dropped only by
//! `close`, by `clear_all`, and with the runtime. A creation whose timer is lost with the runtime is overdue at once.
//!
//! A creation that fails gives its error to the oldest borrower of its key, if that waited when it was ordered
//! (PROP-RP-FAILURE). So no borrower gets an error that is older than its call. The others wait on, and the key orders anew.
//!
//! # The end of the runtime
//! A runtime that has ended drops its tasks, and those of its timers. The first one that is dropped sets `State::creates` to
//! false: from then on borrowers create for themselves, as in a pool without a runtime. Each that creates or waits asks the
//! runtime whether it takes tasks again (`ordering.rs`).

use super::effects::{Effect, Effects, FailedOrder, Ordered};
use super::names::{SlotKey, SubKey};
use super::options::WhenExhausted;
use super::slot::{Content, InIdle, Order, Slot, SlotState, Sub};
use super::state::{Outcome, State, WaitForTurn};
use crate::kernel::collections::list::List;
use crate::kernel::collections::wait_queue::WaiterKey;
use crate::resource_pool::api::factory::Form;

/// How many creations of a key may be overdue, where `max_active` sets no bound.
const MOST_OVERDUE: usize = 32;

impl<F: Form> State<F> {
    /// Returns how many waiters of the key could be lent a resource each, if there were so many.
    pub(crate) fn lendable(&self, sub: &Sub<F>) -> usize {
        match self.options.when_exhausted {
            WhenExhausted::Grow => sub.queue.len(),
            _ => sub.queue.len().min(self.limits.max_active.saturating_sub(sub.active)),
        }
    }

    /// Returns whether the line may help the key by an order, or by dropping an overdue creation of the key.
    pub(crate) fn may_order(&self, sub: &Sub<F>) -> bool {
        let may_drop = sub.dropping == 0 && self.gives_way(sub).is_some();
        sub.orders.len() < self.lendable(sub) && (!self.is_full(sub) || may_drop)
    }

    /// Returns whether the key's own limits allow no other creation. Overdue ones count, so that they are bounded.
    fn is_full(&self, sub: &Sub<F>) -> bool {
        let (in_time, overdue) = (sub.orders.len(), sub.overdue.len());
        let loans = match self.options.when_exhausted {
            WhenExhausted::Grow => overdue,
            _ => sub.active + in_time + overdue,
        };
        let unbounded = self.limits.max_active == usize::MAX && overdue >= MOST_OVERDUE;
        sub.total >= self.limits.max_total_per_key || loans >= self.limits.max_active || unbounded
    }

    /// Returns the overdue creation of the key that may be dropped for another, and its order: no borrower is left that
    /// waited when it was ordered.
    fn gives_way(&self, sub: &Sub<F>) -> Option<(u64, SlotKey)> {
        let overdue = sub.overdue.front()?;
        let ordered_at = self.slots[overdue].ordered_at;
        let first = self.waiters.front_ticket(&sub.queue);
        first.is_none_or(|first| first > ordered_at).then_some((ordered_at, overdue))
    }

    /// Puts the key among those with a creation that gives way, or takes it out.
    pub(crate) fn update_giving_way(&mut self, key: SubKey) {
        let order = self.gives_way(&self.subs[key]).map(|(order, _)| order);
        self.giving_way.set(self.subs.links(), key, order);
    }

    pub(crate) fn creates_enough(&self) -> bool {
        self.creating >= self.options.max_creating
    }

    /// Returns whether a borrower that waits for no other is served by a creation of its own.
    pub(crate) fn could_order(&self, key: SubKey) -> bool {
        let (sub, waiting) = (&self.subs[key], self.subs[key].queue.len());
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        let of_others = self.idle - self.tested > sub.available();
        let has_place = self.total < self.limits.max_total || of_others;
        let room = !self.is_full(sub) && has_place && !self.creates_enough();
        (grows || sub.active + waiting < self.limits.max_active)
            && (room || sub.orders.len() > waiting)
    }

    /// Orders a creation for a waiter, or drops an overdue one for it. Returns false if there is no place.
    #[cold]
    pub(crate) fn order_for(&mut self, key: SubKey, fx: &mut Effects<F>) -> bool {
        if self.creates_enough() {
            return false;
        }
        if self.is_full(&self.subs[key]) {
            return self.drop_overdue(key, fx);
        }
        if self.total < self.limits.max_total {
            self.order(key, None, fx);
            return true;
        }
        // In an unfair pool, waiters that retry are on their way to idle resources: these are no victims.
        let is_spare = self.idle - self.tested > self.retrying;
        let victim = self.oldest_idle().filter(|idle| is_spare && self.slots[*idle].key != key);
        if victim.is_some() {
            self.order(key, victim, fx);
            return true;
        }
        // One after the other: the line is served again once its place is free.
        match self.giving_way.first().filter(|_| self.dropping == 0) {
            Some((_, other)) => self.drop_overdue(other, fx),
            None => false,
        }
    }

    fn drop_overdue(&mut self, key: SubKey, fx: &mut Effects<F>) -> bool {
        let overdue = self.gives_way(&self.subs[key]);
        overdue.inspect(|&(_, overdue)| self.drop_order(overdue, fx)).is_some()
    }

    /// Orders a creation, in the place of the victim if there is one. The caller has checked the limits.
    pub(crate) fn order(&mut self, key: SubKey, victim: Option<SlotKey>, fx: &mut Effects<F>) {
        let victim = victim.map(|victim| {
            self.mark_for_eviction(victim, key);
            self.take_victim(victim)
        });
        let slot = self.reserve(key, SlotState::Adding);
        let sub = self.subs.touch(key);
        sub.adding += 1;
        let meta = sub.metadata.clone();
        self.list_order(slot);
        fx.push(Effect::Order(Ordered { slot, meta, victim }));
    }

    /// Notes that the pool creates in this slot, by a task or by its maintenance.
    pub(crate) fn list_order(&mut self, slot: SlotKey) {
        let entry = &mut self.slots[slot];
        (entry.order, entry.ordered_at) = (Order::InTime, self.waiters.tickets());
        let key = entry.key;
        self.subs.touch(key).orders.push_back(&mut self.slots, slot);
        self.creating += 1;
    }

    /// Ends a creation of the pool's. Returns the task that waits for a call to drop it.
    pub(crate) fn end_order(&mut self, slot: SlotKey) -> Option<WaiterKey> {
        let entry = &mut self.slots[slot];
        let waiter = entry.waiter.take();
        let (key, order) = (entry.key, std::mem::replace(&mut entry.order, Order::None));
        match order {
            Order::InTime => {
                self.subs.touch(key).orders.remove(&mut self.slots, slot);
                self.creating -= 1;
            }
            Order::Overdue => {
                self.subs.touch(key).overdue.remove(&mut self.slots, slot);
                self.overdue -= 1;
                // The end of the section looks at keys with a creation that gives way only while one is overdue.
                self.update_giving_way(key);
            }
            Order::None | Order::Dropped => {}
        }
        waiter
    }

    /// Notes that the creation takes long, so it may hang.
    pub(crate) fn note_overdue(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        let Slot { key, order, ordered_at, .. } = self.slots[slot];
        if order != Order::InTime {
            // It was dropped meanwhile.
            return;
        }
        self.slots[slot].order = Order::Overdue;
        let sub = self.subs.touch(key);
        sub.orders.remove(&mut self.slots, slot);
        // Timers that end at the same time may be noted in another order.
        let mut before = sub.overdue.back();
        while let Some(other) = before.filter(|other| self.slots[*other].ordered_at > ordered_at) {
            before = List::<InIdle>::before(&self.slots, other);
        }
        let next = match before {
            Some(before) => List::<InIdle>::after(&self.slots, before),
            None => sub.overdue.front(),
        };
        sub.overdue.push_before(&mut self.slots, slot, next);
        self.creating -= 1;
        self.overdue += 1;
        self.let_fillers_look(fx);
    }

    /// Has a creation dropped by its task. Its place counts until then.
    pub(crate) fn drop_order(&mut self, slot: SlotKey, fx: &mut Effects<F>) {
        let waiter = self.end_order(slot);
        self.end_life(slot);
        let entry = &mut self.slots[slot];
        (entry.state, entry.order) = (SlotState::Leaving, Order::Dropped);
        let key = entry.key;
        self.end_addition(key, fx);
        let sub = self.subs.touch(key);
        sub.leaving += 1;
        sub.dropping += 1;
        self.leaving += 1;
        self.dropping += 1;
        if let Some(waiter) = waiter {
            fx.push(Effect::Wake(self.waiters.resolve(waiter, Outcome::Dropped)));
        }
    }

    pub(crate) fn drop_orders_of(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let first = |sub: &Sub<F>| sub.orders.front().or_else(|| sub.overdue.front());
        while let Some(slot) = first(&self.subs[key]) {
            self.drop_order(slot, fx);
        }
    }

    /// Ends a creation of the pool's without a resource. Returns the error if no borrower gets it.
    pub(crate) fn order_failed(
        &mut self,
        slot: SlotKey,
        error: F::Failed,
        fx: &mut Effects<F>,
    ) -> Option<F::Failed> {
        let Slot { key, state, ordered_at, .. } = self.slots[slot];
        let sub = &self.subs[key];
        let first = self.waiters.front_ticket(&sub.queue);
        let is_served = self.creates && state == SlotState::Adding;
        let waited = is_served && first.is_some_and(|first| first <= ordered_at);
        let left = if waited {
            let failed = FailedOrder { meta: sub.metadata.clone(), error };
            self.resolve_first(key, Outcome::Failed(Box::new(failed)), fx);
            None
        } else {
            Some(error)
        };
        self.added(slot, Content::Nothing, fx);
        left
    }

    /// Ends a creation whose task was dropped. Returns whether the runtime dropped it, and not the task itself: from then
    /// on borrowers create.
    pub(crate) fn order_lost(&mut self, slot: SlotKey, fx: &mut Effects<F>) -> bool {
        let lost = self.slots[slot].state == SlotState::Adding;
        if lost {
            self.runtime_has_ended();
        }
        self.added(slot, Content::Nothing, fx);
        lost
    }

    /// The runtime dropped a task: from now on borrowers create.
    pub(crate) fn runtime_has_ended(&mut self) {
        if std::mem::take(&mut self.creates) {
            self.touch_all_keys();
        }
    }

    /// The runtime takes tasks again: from now on the pool creates.
    pub(crate) fn runtime_is_back(&mut self) {
        if !std::mem::replace(&mut self.creates, true) {
            self.touch_all_keys();
        }
    }

    /// Each key has another place in the line.
    fn touch_all_keys(&mut self) {
        self.for_all_keys(|state, key| {
            state.subs.touch(key);
        });
    }

    /// A borrower whose resource cannot be lent takes its place in line again, by the time of its arrival. It is then
    /// served directly: another that it cannot use may be new, and that failure is its own.
    pub(crate) fn wait_again(&mut self, key: SubKey, is_thread: bool, ticket: u64) -> WaitForTurn {
        let queue = &mut self.subs.touch(key).queue;
        let waiter = self.waiters.requeue(queue, is_thread, ticket);
        self.waiters.set_lost(waiter, u32::MAX);
        self.waiting += 1;
        WaitForTurn { key, waiter }
    }
}
