//! The critical sections of returns, the idle list, and destruction.

use crate::resource_pool::rules::Defect::{ClearTakesBorrowed, LeakedLoan, MissedEviction};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Limits, Refusal, ResourcePool, Slot, SlotId, Test,
};

impl ResourcePool {
    // Lent -- returned, passivated and valid --> idle, for a waiter; or it leaves
    pub(crate) fn give_back(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.put_back(slot, !self.planted(ReturnServesNoWaiter));
        }
    }

    // Lent -- invalidated, or returned and not valid --> leaving
    pub(crate) fn invalidate(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.leave(slot);
            if !self.planted(InvalidateServesNoWaiter) {
                self.settle();
            }
        }
    }

    // Lent -- detached --> outside the pool
    pub(crate) fn detach(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.total[slot.key] -= 1;
            if !self.planted(DetachServesNoWaiter) {
                self.settle();
            }
        }
    }

    // Lent -- its borrower dies --> leaving
    pub(crate) fn die(&mut self, client: ClientId) {
        if self.original(LeakedLoan) {
            self.clients[client] = At::Out;
        } else {
            self.invalidate(client);
        }
    }

    fn end_loan(&mut self, client: ClientId) -> Option<Slot> {
        let At::Lent(slot) = self.clients[client] else { return None };
        self.clients[client] = At::Out;
        // The Elixir pool no longer counts the resources that it has cleared.
        self.active[slot.key] = self.active[slot.key].saturating_sub(1);
        Some(slot)
    }

    /// Puts a resource into the idle list, and serves a waiter. The resource leaves if it must not be lent again, or
    /// exceeds a limit.
    pub(crate) fn put_back(&mut self, slot: Slot, serves: bool) {
        let (slot, fresh) = (slot.back(), slot.ordered > 0 && self.creates);
        if self.closed && !self.planted(ReturnsToClosed)
            || slot.old && !self.planted(OldComesBack)
            || slot.expired && !self.planted(ExpiredComesBack)
            || self.has_too_many(slot.key)
        {
            self.leave(slot);
            return self.settle();
        }
        let since = self.next();
        let (due, expired, overlooked) = (false, false, false);
        let idle = Idle { slot, since, test: Test::No, due, expired, overlooked, fresh };
        self.insert_idle(idle, serves);
        // A resource that no borrower was there for is as good as any other.
        self.idle.iter_mut().for_each(|idle| idle.fresh = false);
    }

    fn insert_idle(&mut self, idle: Idle, serves: bool) {
        let at = match self.planted(ReturnsToWrongEnd) {
            true => 0,
            false => self.idle.partition_point(|other| other.since < idle.since),
        };
        self.idle.insert(at, idle);
        self.events.push(Event::Idles(idle.slot.id));
        if serves {
            self.settle();
        }
        self.trim(idle.slot.key, Some(idle.slot.id));
    }

    /// Returns a spared eviction victim to its place in the idle list; or lets it leave.
    pub(crate) fn spare(&mut self, victim: Idle) {
        let Idle { slot, expired, .. } = victim;
        let ended = slot.old || slot.expired || expired;
        if self.closed || ended || self.has_too_many(slot.key) {
            self.leave(slot);
            return self.settle();
        }
        if self.planted(SparedIsNewest) {
            return self.put_back(slot, true);
        }
        self.insert_idle(victim, true);
    }

    /// Lets one resource leave if more than `max_idle` are idle: the resource that came last, or else the oldest.
    pub(crate) fn trim(&mut self, key: Key, last: Option<SlotId>) {
        let called = self.planted(TrimsCalledFor);
        let few = self.limits.max_idle.allows(self.idle_of(key).count());
        let surplus = if called { !few } else { self.surplus_of(key) };
        if !surplus || self.planted(MaxIdleIgnored) {
            return;
        }
        let is_there = |idle: &Idle| idle.slot.key == key && idle.test == Test::No;
        let find = |is: &dyn Fn(&Idle) -> bool| self.idle.iter().position(|i| is_there(i) && is(i));
        let found = find(&|idle| Some(idle.slot.id) == last).or_else(|| find(&|_| true));
        if let Some(surplus) = found {
            self.drop_idle(surplus);
        }
    }

    /// Lets an idle resource leave, or marks it to leave when its test ends.
    pub(crate) fn drop_idle(&mut self, at: usize) {
        if self.idle[at].test == Test::No {
            let slot = self.idle.remove(at).slot;
            self.leave(slot);
        } else if !self.planted(ClearForgetsTested) {
            self.idle[at].test = Test::Doomed;
        }
    }

    /// Queues a resource for destruction. It counts until then.
    pub(crate) fn leave(&mut self, slot: Slot) {
        self.events.push(Event::Leaves(slot.id));
        let at = self.leaving.partition_point(|other| other.key <= slot.key);
        self.leaving.insert(at, slot);
    }

    // leaving -- destroyed --> gone; the victim of a dropped creation goes first
    pub(crate) fn destroyed(&mut self, at: usize) {
        let slot = self.leaving[at];
        if slot.evicts.is_some() {
            self.leaving[at].evicts = None;
            self.victim_left(&slot);
        } else {
            self.leaving.remove(at);
            self.total[slot.key] = self.total[slot.key].saturating_sub(1);
        }
        if !self.planted(DestroyedServesNoWaiter) {
            self.settle();
        }
    }

    // (no slot) -- add, and there is room --> adding
    pub(crate) fn add(&mut self, key: Key) -> Option<usize> {
        let begins = self.has_room_to_add(key) && !self.closed;
        let slot = begins.then(|| self.reserve(key));
        let at = self.adding.partition_point(|other| other.key <= key);
        self.adding.splice(at..at, slot);
        self.events.push(Event::Adds(slot.map(|slot| slot.id)));
        slot.map(|_| at)
    }

    // (no slot) -- the idle list is refilled --> adding, without a caller
    pub(crate) fn refill(&mut self, key: Key) {
        if self.creates {
            return self.order(key, None);
        }
        let ordered = self.next();
        if let Some(at) = self.add(key) {
            self.adding[at].ordered = ordered;
        }
    }

    /// Returns whether one more resource may be created for the idle list.
    pub(crate) fn has_room_to_add(&self, key: Key) -> bool {
        let available = self.num_idle_of(key) + self.adding_of(key);
        self.limits.max_idle.left(available) > 0 && self.has_place(key)
    }

    /// Returns whether the idle list of a key is refilled: a resource of the key was created, and one of them stays. So
    /// a key whose creations fail is not retried, and a key without resources is forgotten. The only key of an unkeyed
    /// pool is never forgotten.
    pub fn is_kept(&self, key: Key) -> bool {
        self.keys().len() == 1 || self.known[key] && self.staying(key) > 0
    }

    /// Updates the known keys after a step.
    pub(crate) fn look_at_keys(&mut self) {
        for key in self.keys().filter(|_| self.limits.min_idle > 0) {
            let lent = |at: &At| matches!(at, At::Lent(slot) if slot.key == key);
            let made = self.num_idle_of(key) > 0 || self.clients.iter().any(lent);
            self.known[key] = (self.known[key] || made) && self.total[key] > 0 && !self.closed;
        }
    }

    /// Returns whether the idle list of a key needs a refill: it is below the minimum, there is room, and no waiter
    /// could use that room.
    pub fn wants_refill(&self, key: Key) -> bool {
        let needs_room = |key: Key| match self.creates {
            true => self.in_flight(key) < self.lendable(key) && !self.is_full(key),
            false => self.is_eligible(key),
        };
        self.lacks(key) > 0
            && self.is_kept(key)
            && self.has_room_to_add(key)
            && !self.keys().any(needs_room)
            && !(self.creates && self.creates_enough())
            && !self.closed
    }

    /// Returns how many resources the idle list lacks beside those that are being created for it.
    pub fn lacks(&self, key: Key) -> usize {
        let coming = match self.creates {
            true => {
                let of_callers = |slot: &&Slot| slot.key == key && slot.ordered == 0;
                let spare = self.in_flight(key).saturating_sub(self.lendable(key));
                spare + self.adding.iter().filter(of_callers).count()
            }
            false => self.adding_of(key),
        };
        self.limits.min_idle.saturating_sub(self.num_idle_of(key) + coming)
    }

    // adding -- created --> idle, for a waiter; or it leaves
    // adding -- fails --> gone; the error of an order is that of the oldest waiter, if it waited when that was ordered
    pub(crate) fn added(&mut self, at: usize, made: bool) {
        let slot = self.adding.remove(at);
        if made {
            self.put_back(slot, !self.planted(AddedServesNoWaiter));
        } else {
            self.total[slot.key] -= 1;
            if slot.ordered > 0 && self.creates {
                self.order_failed(&slot);
            }
            if !self.planted(FailureServesNoWaiter) {
                self.settle();
            }
        }
    }

    // idle -- test --> under test
    pub(crate) fn test(&mut self, at: usize) {
        self.idle[at].test = Test::Running;
    }

    // under test -- valid --> idle, at its place, for a waiter; or it leaves, if marked
    // under test -- invalid --> leaving
    pub(crate) fn tested(&mut self, at: usize, valid: bool) {
        let doomed = std::mem::replace(&mut self.idle[at].test, Test::No) == Test::Doomed;
        let slot = self.idle[at].slot;
        if !valid || doomed || self.has_too_many(slot.key) {
            self.drop_idle(at);
            return self.settle();
        }
        if !self.planted(TestedServesNoWaiter) {
            self.settle();
        }
        self.trim(slot.key, Some(slot.id));
    }

    // idle -- time passes --> due
    pub(crate) fn age(&mut self, at: usize) {
        self.idle[at].due = true;
    }

    // idle -- time passes --> idle, expired
    pub(crate) fn outlive(&mut self, at: usize) {
        (self.idle[at].due, self.idle[at].expired) = (true, true);
    }

    /// Drops expired resources of the key that would be lent next. If there is no place for another, the last of them
    /// stays: a borrower gets its place.
    pub(crate) fn drop_expired(&mut self, key: Key, has_place: bool) {
        while let Some(at) = self.next_idle(key).filter(|&at| self.idle[at].expired) {
            let last = self.idle_of(key).filter(|idle| idle.test == Test::No).count() == 1;
            let wanted = last && !has_place && !self.planted(ExpiredKeepsPlace);
            if wanted || self.planted(LendsExpired) {
                return;
            }
            self.drop_idle(at);
        }
    }

    /// Returns whether a resource may be evicted.
    pub(crate) fn may_evict(&self, idle: &Idle, hard: bool) -> bool {
        let spare = self.num_idle_of(idle.slot.key) > self.limits.min_idle;
        idle.due
            && idle.test == Test::No
            && !idle.overlooked
            && !self.planted(NeverEvicts)
            && (hard || spare || self.planted(SoftBelowMinimum) || self.original(MissedEviction))
    }

    // due -- evicted; softly only above min_idle --> leaving
    pub(crate) fn evict(&mut self, at: usize, hard: bool) {
        let available = self.num_idle_of(self.idle[at].slot.key);
        if !hard && self.original(MissedEviction) && available <= self.limits.min_idle {
            self.idle[at].overlooked = true;
        } else {
            self.drop_idle(at);
        }
    }

    // lent -- its lifetime ends --> lent for the last time
    // granted -- its lifetime ends --> not lent at the pick-up or later
    pub(crate) fn expire(&mut self, client: ClientId) {
        self.clients[client].slots_mut().take(1).for_each(|slot| slot.expired = true);
    }

    // every idle resource --> leaving; spared eviction victims leave, too
    pub(crate) fn clear(&mut self) {
        self.drop_idle_list();
        if self.original(ClearTakesBorrowed) {
            for slot in
                self.clients.iter().filter(|at| matches!(at, At::Lent(_))).flat_map(At::slot)
            {
                self.total[slot.key] -= 1;
                self.active[slot.key] -= 1;
            }
        }
    }

    fn drop_idle_list(&mut self) {
        (0..self.idle.len()).rev().for_each(|at| self.drop_idle(at));
        if !self.planted(ClearForgetsVictims) {
            let victims = self.clients.iter_mut().filter_map(|at| match at {
                At::Evicting { victim, granted: true, .. } => Some(victim),
                _ => None,
            });
            victims.for_each(|victim| victim.slot.old = true);
        }
    }

    // the same; creations in flight are dropped, and ordered anew; and every other resource --> old
    pub(crate) fn clear_all(&mut self) {
        self.drop_idle_list();
        if !self.planted(ClearAllKeepsOrders) {
            self.drop_orders();
        }
        let forgets = self.planted(CreatedStaysNew);
        let lent = self.clients.iter_mut().filter(|at| !forgets || matches!(at, At::Lent(_)));
        lent.flat_map(At::slots_mut).chain(&mut self.adding).for_each(|slot| slot.old = true);
        self.settle();
    }

    // open --> closed; waiters are refused, idle resources leave, and the creations in flight are dropped
    pub(crate) fn close(&mut self) {
        self.closed = true;
        if !self.planted(CloseLeavesWaiters) {
            for waiter in std::mem::take(&mut self.line) {
                self.refuse(waiter.client, Refusal::Closed);
            }
        }
        if !self.planted(CloseKeepsIdle) {
            self.drop_idle_list();
        }
        if !self.planted(CloseKeepsOrders) {
            self.drop_orders();
        }
    }

    // new limits; surplus idle resources leave, the least recently used first
    pub(crate) fn resize(&mut self, limits: Limits) {
        self.limits = limits;
        while let Some(surplus) = self.surplus().filter(|_| !self.planted(LowersLate)) {
            self.drop_idle(surplus);
        }
        if !self.planted(ResizeServesNoWaiter) {
            self.settle();
        }
    }

    /// Returns a surplus idle resource: first of a key with too many, then of the pool.
    fn surplus(&self) -> Option<usize> {
        let is_there = |idle: &Idle| idle.test == Test::No;
        let of_key = |idle: &Idle| {
            let key = idle.slot.key;
            self.surplus_of(key) || !self.limits.max_total_per_key.allows(self.staying(key))
        };
        let first = self.idle.iter().position(|idle| is_there(idle) && of_key(idle));
        first
            .or_else(|| self.idle.iter().position(|i| is_there(i) && self.has_too_many(i.slot.key)))
    }

    /// Returns whether more resources stay than the limits allow, in total or of the key.
    pub(crate) fn has_too_many(&self, key: Key) -> bool {
        let in_all = self.keys().map(|key| self.staying(key)).sum();
        !self.limits.max_total.allows(in_all)
            || !self.limits.max_total_per_key.allows(self.staying(key))
    }
}
