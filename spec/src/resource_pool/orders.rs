//! Orders: where there is a place to run creations, the pool creates, never a borrower.
//!
//! A borrower that finds nothing idle waits in line, and does nothing else. A key *orders* a creation while fewer of
//! its creations are in flight than waiters that could be lent to (PROP-RP-ORDERED). The order has its place from the
//! beginning, if need be that of an idle resource of another key. A new resource becomes idle, and so goes to the
//! oldest waiter. A borrower that leaves, or is served otherwise, leaves the creations alone.
//!
//! A creation that takes long is *overdue*: it may hang, so it is not counted any more, and another is ordered. Where
//! the limits allow no other, an overdue one is dropped; unless a borrower still waits that waited when it was ordered
//! (PROP-RP-DROPPED). Without this clause a creation that takes longer would begin again for ever.

use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{At, Event, Key, Refusal, ResourcePool, Slot, Waiter};

/// The way in which the line goes on.
enum Next {
    /// This waiter takes an idle resource of its key, or is called to it.
    Lend(usize),
    /// The pool creates for this waiter, in the place of the idle resource.
    Order(usize, Option<usize>),
    /// This overdue creation is dropped. The line goes on once its place is free.
    Drop(usize),
}

impl ResourcePool {
    /// Returns the waiters of a key, the oldest first, by their indexes in the line.
    fn waiters_of(&self, key: Key) -> impl Iterator<Item = usize> {
        (0..self.line.len()).filter(move |&at| self.line[at].key == key)
    }

    /// Returns how many waiters of the key could be lent a resource each, if there were so many.
    pub(crate) fn lendable(&self, key: Key) -> usize {
        let admitted = match self.grows() {
            true => usize::MAX,
            false => self.limits.max_active.left(self.active[key]),
        };
        self.waiters_of(key).count().min(admitted)
    }

    /// Returns the number of the key's creations in flight that the pool ordered, and that are not overdue.
    pub(crate) fn in_flight(&self, key: Key) -> usize {
        let counts = |slot: &&Slot| {
            let overdue = slot.overdue && !self.planted(OverdueCounts);
            slot.key == key && slot.ordered > 0 && !overdue
        };
        self.adding.iter().filter(counts).count()
    }

    /// Returns whether the key's own limits allow no other creation. Overdue ones count, so that they are bounded.
    pub(crate) fn is_full(&self, key: Key) -> bool {
        let orders = self.adding.iter().filter(|slot| slot.key == key && slot.ordered > 0);
        let in_flight = match self.grows() {
            true => orders.filter(|slot| slot.overdue).count(),
            false => self.active[key] + orders.count(),
        };
        let unbounded = self.planted(OverdueWithoutBound);
        self.room_of(key) == 0 || !unbounded && self.limits.max_active.left(in_flight) == 0
    }

    /// Returns whether `max_creating` creations are in flight.
    pub(crate) fn creates_enough(&self) -> bool {
        let all = self.keys().map(|key| self.in_flight(key)).sum();
        self.options.max_creating.left(all) == 0 && !self.planted(MaxCreatingIgnored)
    }

    /// Returns whether an overdue creation may be dropped for another: no borrower is left that waited when it was
    /// ordered.
    pub(crate) fn gives_way(&self, slot: &Slot) -> bool {
        let first = self.waiters_of(slot.key).next().map(|at| self.line[at].ticket);
        let awaited = first.is_some_and(|first| first < slot.ordered);
        slot.overdue && (!awaited || self.planted(DropsAwaited))
    }

    /// Returns whether the task of a dropped creation has not ended yet.
    pub(crate) fn drops(&self) -> bool {
        self.leaving.iter().any(|slot| slot.dropped)
    }

    /// Returns the overdue creation that gives way first, of this key or of any. One is dropped after the other.
    fn droppable(&self, key: Option<Key>) -> Option<usize> {
        let of = |slot: &Slot| key.is_none_or(|key| slot.key == key);
        if self.leaving.iter().any(|slot| slot.dropped && of(slot)) {
            return None;
        }
        let could = |slot: &Slot| key.is_none_or(|key| slot.key == key) && self.gives_way(slot);
        let all = (0..self.adding.len()).filter(|&at| could(&self.adding[at]));
        all.min_by_key(|&at| self.adding[at].ordered).filter(|_| !self.planted(OverdueStays))
    }

    /// Returns the oldest waiter of a key that no creation in flight is for, if the key may order one.
    fn without_order(&self, key: Key) -> Option<usize> {
        let few =
            self.in_flight(key) < self.lendable(key) + usize::from(self.planted(OrdersTooMany));
        let ahead = if self.planted(OrdersForTheLast) { 0 } else { self.in_flight(key) };
        let may_order = few && (!self.is_full(key) || self.droppable(Some(key)).is_some());
        let ahead = ahead.min(self.waiters_of(key).count().saturating_sub(1));
        self.waiters_of(key).nth(ahead).filter(|_| may_order)
    }

    /// Returns the oldest waiter that an idle resource of its key could be lent to, beyond those of called waiters.
    fn lend_to(&self, key: Key) -> Option<usize> {
        let called = self.called(|waiter| waiter.key == key);
        let spare = self.available(key) > called;
        let may_lend = self.limits.max_active.left(self.active[key]) > called || self.grows();
        self.waiters_of(key).next().filter(|_| spare && may_lend)
    }

    /// Returns how the waiter that needs an order can be helped.
    fn order_for(&self, at: usize) -> Option<Next> {
        let key = self.line[at].key;
        if self.creates_enough() {
            return None;
        }
        if self.is_full(key) {
            return self.droppable(Some(key)).map(Next::Drop);
        }
        if self.room() > 0 {
            return Some(Next::Order(at, None));
        }
        // The idle resources that called waiters are on their way to are no victims.
        let available: usize = self.keys().map(|key| self.available(key)).sum();
        let spare = available > self.called(|_| true);
        let of_another = |&victim: &usize| self.idle[victim].slot.key != key;
        let victim = self.least_recently_used().filter(of_another).filter(|_| spare);
        match victim {
            Some(victim) => Some(Next::Order(at, Some(victim))),
            None => self.droppable(None).map(Next::Drop),
        }
    }

    /// Serves the line, the oldest waiter first: with an idle resource of its key, or by an order.
    pub(crate) fn settle_by_orders(&mut self) {
        while !self.closed || self.planted(ClosedLends) {
            let lent_to = self.keys().filter_map(|key| self.lend_to(key));
            // If the first of them cannot be helped, no other can; but for one in an unfair pool, until the waiters that
            // were called have their resources.
            let ordered = self.keys().filter_map(|key| self.without_order(key)).min();
            let ordered = ordered.and_then(|at| Some((at, self.order_for(at)?)));
            let all = lent_to.map(|at| (at, Next::Lend(at))).chain(ordered);
            let next = match self.planted(LastComeFirstServed) {
                true => all.max_by_key(|(at, _)| *at),
                false => all.min_by_key(|(at, _)| *at),
            };
            match next.map(|(_, next)| next) {
                Some(Next::Lend(at)) => self.lend_or_call(at),
                Some(Next::Order(..)) if self.planted(OrdersTooFew) && self.adding.len() == 1 => {
                    return;
                }
                Some(Next::Order(at, victim)) => self.order(self.line[at].key, victim),
                Some(Next::Drop(at)) => self.drop_order(at),
                None => return,
            }
        }
    }

    fn lend_or_call(&mut self, at: usize) {
        let Waiter { client, key, .. } = self.line[at];
        if !self.goes_first(&self.line[at]) {
            self.clients[client] = At::Called(self.line.remove(at));
            self.events.push(Event::Called(client));
            return;
        }
        self.drop_expired(key, true);
        let Some(idle) = self.next_idle(key) else { return };
        self.line.remove(at);
        self.active[key] += 1;
        self.take(client, idle, true);
    }

    /// Orders a creation, in the place of the victim if there is one.
    pub(crate) fn order(&mut self, key: Key, victim: Option<usize>) {
        let victim = victim.map(|at| self.idle.remove(at).slot);
        let evicts = victim.map(|victim| (victim.id, victim.key));
        let ordered = self.next();
        let slot = Slot { ordered, evicts, ..self.reserve(key) };
        self.events.push(Event::Orders(slot.id, victim.map(|victim| victim.id)));
        let at = self.adding.partition_point(|other| other.key <= key);
        self.adding.insert(at, slot);
    }

    // adding, ordered -- its victim is destroyed --> adding: the creation begins
    pub(crate) fn victim_gone(&mut self, at: usize) {
        let slot = self.adding[at];
        self.adding[at].evicts = None;
        self.victim_left(&slot);
        if !self.planted(EvictionServesNoWaiter) {
            self.settle();
        }
    }

    /// The victim of an order no longer counts for its key.
    pub(crate) fn victim_left(&mut self, slot: &Slot) {
        if let Some((_, victims)) = slot.evicts.filter(|&(_, victims)| victims != slot.key) {
            self.total[victims] -= 1;
        }
    }

    // adding, ordered -- it takes long --> adding, overdue; another may be ordered, or it gives way
    pub(crate) fn overdue(&mut self, at: usize) {
        self.adding[at].overdue = true;
        self.settle();
    }

    /// Has a creation dropped by its task. Its place counts until then.
    pub(crate) fn drop_order(&mut self, at: usize) {
        let slot = self.adding.remove(at);
        self.leave(Slot { dropped: true, evicts: slot.evicts, ..slot.back() });
    }

    /// Has the creations in flight dropped.
    pub(crate) fn drop_orders(&mut self) {
        while let Some(at) = self.adding.iter().position(|slot| slot.ordered > 0) {
            self.drop_order(at);
        }
    }

    /// The oldest waiter of the key gets the error of the creation, if it waited when that was ordered.
    pub(crate) fn order_failed(&mut self, slot: &Slot) {
        let oldest = match self.planted(FailureIsTheLast) {
            true => self.waiters_of(slot.key).last(),
            false => self.waiters_of(slot.key).next(),
        };
        let Some(at) = oldest else { return };
        if self.line[at].ticket < slot.ordered || self.planted(StaleFailure) {
            let waiter = self.line.remove(at);
            self.refuse(waiter.client, Refusal::Failed);
        }
    }

    // adding, ordered -- the runtime has ended --> gone; from now on borrowers create
    pub(crate) fn lost(&mut self, at: usize) {
        let slot = self.adding.remove(at);
        self.total[slot.key] -= 1;
        self.victim_left(&slot);
        self.creates = false;
        self.settle();
    }

    // borrowers create -- there is a runtime --> the pool creates
    pub(crate) fn runtime_is_back(&mut self) {
        self.creates = true;
        self.settle();
    }

    /// A borrower whose resource cannot be lent takes its place in line again, by the time of its arrival.
    pub(crate) fn queue_again(&mut self, client: usize, key: Key) {
        let ticket = self.tickets[client];
        let at = self.line.partition_point(|other| other.ticket < ticket);
        self.line.insert(at, Waiter { client, key, ticket, lost: self.options.races });
        self.clients[client] = At::Waiting(key);
        self.events.push(Event::Waits(client));
        self.settle();
    }

    /// Returns whether a borrower that does not wait for others is served by a creation of its own.
    pub(crate) fn could_order(&self, key: Key) -> bool {
        let waiting = self.waiters_of(key).count();
        let may_lend = self.grows() || self.limits.max_active.left(self.active[key]) > waiting;
        let of_others = self.keys().filter(|&other| other != key);
        let has_victim = of_others.map(|other| self.available(other)).sum::<usize>() > 0;
        let has_place = self.room() > 0 || has_victim;
        let room = !self.is_full(key) && has_place && !self.creates_enough();
        may_lend && (room || self.in_flight(key) > waiting)
    }
}
