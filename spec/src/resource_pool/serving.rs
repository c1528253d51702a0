//! The order of service: the line of waiters, and the end of every section that frees a resource or a place.
//!
//! Only this module reserves capacity, before it is used. A served borrower keeps its place until it gives it back,
//! even if several resources fail.

use crate::resource_pool::rules::Defect::{HoardedMinimum, UnboundedTotal};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, ResourcePool, Slot, Test, Waiter, WhenExhausted,
};

/// The way in which a borrower can be served. Both carry indexes into the idle list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// It takes this idle resource of its key.
    Take(usize),
    /// It creates a resource; if there is no room, in the place of this eviction victim: an expired resource of its
    /// key, or an idle one of another key.
    Create(Option<usize>),
}

impl ResourcePool {
    /// Returns whether one more resource of the key may be lent.
    pub fn may_lend(&self, key: Key) -> bool {
        self.limits.max_active.left(self.active[key]) > 0
            || self.grows()
            || self.planted(MaxActiveIgnored)
    }

    /// Returns the idle resource of a key that is lent next: the newest, or the oldest if the pool is `fifo`. Resources
    /// under test are passed over.
    pub(crate) fn next_idle(&self, key: Key) -> Option<usize> {
        let takeable = |idle: &Idle| idle.test == Test::No || self.planted(TestedIsTaken);
        let is_there = |at: &usize| self.idle[*at].slot.key == key && takeable(&self.idle[*at]);
        let mut of_key = (0..self.idle.len()).filter(is_there);
        let oldest = self.options.fifo != self.planted(TakesFromWrongEnd);
        if oldest { of_key.next() } else { of_key.next_back() }
    }

    /// Returns how many idle resources of the key are not under test.
    pub(crate) fn available(&self, key: Key) -> usize {
        self.idle_of(key).filter(|idle| idle.test == Test::No).count()
    }

    /// Returns whether the pool ignores `max_active`.
    pub(crate) fn grows(&self) -> bool {
        self.options.when_exhausted == WhenExhausted::Grow
    }

    /// Returns the eviction victim: the least recently used resource that is not under test.
    pub(crate) fn least_recently_used(&self) -> Option<usize> {
        let mut idle = (0..self.idle.len()).filter(|&at| self.idle[at].test == Test::No);
        if self.planted(VictimIsNewest) { idle.next_back() } else { idle.next() }
    }

    /// Returns how many more resources of the key its own limit allows.
    pub(crate) fn room_of(&self, key: Key) -> usize {
        if self.planted(MaxTotalPerKeyIgnored) {
            return usize::MAX;
        }
        let forgotten =
            if self.planted(VictimForgetsItsKey) { self.victims_for_others(key) } else { 0 };
        self.limits.max_total_per_key.left(self.total[key] - forgotten)
    }

    /// Returns how many more resources `max_total` allows.
    pub(crate) fn room(&self) -> usize {
        if self.original(UnboundedTotal) || self.grows() && self.planted(GrowIgnoresTotal) {
            return usize::MAX;
        }
        self.limits.max_total.left(self.num_total())
    }

    /// Returns whether one more resource of the key may exist.
    pub(crate) fn has_place(&self, key: Key) -> bool {
        self.room_of(key) > 0 && self.room() > 0
    }

    /// Returns the way in which a borrower of the key can be served now. In this order:
    ///
    /// 1. an idle resource of its key;
    /// 2. a new one in the place of an expired one of its key;
    /// 3. a new one, where there is room;
    /// 4. a new one in the place of the least recently used of another key.
    ///
    /// Where the pool creates, only the first of these serves a borrower. Beyond a lowered limit only resources under
    /// test are idle, so their places are not passed on.
    pub fn serving(&self, key: Key) -> Option<Serving> {
        if !self.may_lend(key) {
            return None;
        }
        if self.creates {
            return self.next_idle(key).map(Serving::Take);
        }
        let hoarded =
            self.original(HoardedMinimum) && self.idle_of(key).count() <= self.limits.min_idle;
        if let Some(at) = self.next_idle(key).filter(|_| !hoarded) {
            let lent = !self.idle[at].expired || self.planted(LendsExpired);
            Some(if lent { Serving::Take(at) } else { Serving::Create(Some(at)) })
        } else if self.room_of(key) == 0 {
            None
        } else if self.room() > 0 {
            Some(Serving::Create(None))
        } else {
            self.least_recently_used().map(|at| Serving::Create(Some(at)))
        }
    }

    /// Reserves the resource or the place for the borrower.
    pub(crate) fn serve(&mut self, client: ClientId, key: Key, serving: Serving, granted: bool) {
        self.active[key] += 1;
        match serving {
            Serving::Take(at) => self.take(client, at, granted),
            Serving::Create(victim) => {
                let victim = victim.map(|at| self.idle.remove(at));
                // A victim of another key counts for that key until its destruction.
                let own = victim.is_some_and(|victim| victim.slot.key == key);
                self.total[key] -= usize::from(own);
                let slot = self.reserve(key);
                let id = victim.map(|victim| victim.slot.id);
                self.events.push(Event::Creates(client, slot.id, id));
                self.clients[client] = match victim {
                    Some(victim) => At::Evicting { slot, victim, granted },
                    None => At::Creating { slot, granted },
                };
            }
        }
    }

    /// Takes an idle resource for the borrower, whose place is reserved.
    pub(crate) fn take(&mut self, client: ClientId, at: usize, granted: bool) {
        let kept = self.planted(TakenStaysIdle);
        let Idle { slot, fresh, .. } = if kept { self.idle[at] } else { self.idle.remove(at) };
        self.events.push(Event::Takes(client, slot.id));
        self.clients[client] = At::Activating { slot, fresh, granted };
    }

    /// Reserves a slot for one more resource of the key.
    pub(crate) fn reserve(&mut self, key: Key) -> Slot {
        self.made += 1;
        self.total[key] += 1;
        Slot { id: self.made, key, ..Slot::NEW }
    }

    /// Returns whether a borrower waits for the key and the key's own limits let it be served. A called waiter counts
    /// as served.
    pub(crate) fn is_eligible(&self, key: Key) -> bool {
        let called = self.called(|waiter| waiter.key == key);
        self.line.iter().any(|waiter| waiter.key == key)
            && self.available(key).saturating_add(self.room_of(key)) > called
            && (self.grows()
                || self.limits.max_active.left(self.active[key]) > called
                || self.planted(MaxActiveIgnored))
    }

    /// Returns whether a waiter is served directly, because newcomers may not barge or it has lost its races.
    pub(crate) fn goes_first(&self, waiter: &Waiter) -> bool {
        self.options.fair || waiter.lost >= self.options.races && !self.planted(RacesAreEndless)
    }

    /// Returns the number of called waiters that `which` selects.
    pub(crate) fn called(&self, which: impl Fn(&Waiter) -> bool) -> usize {
        let called = |at: &&At| matches!(at, At::Called(waiter) if which(waiter));
        self.clients.iter().filter(called).count()
    }

    /// Returns the oldest waiter whose key is eligible, by its index in the line.
    fn first_in_line(&self) -> Option<usize> {
        if self.planted(FullKeyBlocks) {
            return (!self.line.is_empty()).then_some(0);
        }
        let mut line = (0..self.line.len()).filter(|&at| self.is_eligible(self.line[at].key));
        if self.planted(LastComeFirstServed) { line.next_back() } else { line.next() }
    }

    /// Serves the borrowers that wait, the oldest first, until the first of them cannot be served. Then no other can.
    pub(crate) fn settle(&mut self) {
        if self.creates {
            return self.settle_by_orders();
        }
        while !self.closed || self.planted(ClosedLends) {
            let Some(at) = self.first_in_line() else { return };
            // The called waiters come first to all that is free.
            if !self.options.fair && self.free() <= self.called(|_| true) {
                return;
            }
            let Waiter { client, key, ticket, .. } = self.line[at];
            if self.goes_first(&self.line[at]) {
                self.drop_expired(key, self.has_place(key));
                let Some(serving) = self.serving(key) else { return };
                self.line.remove(at);
                self.tickets[client] = ticket;
                self.serve(client, key, serving, true);
            } else {
                if self.planted(CallsNoWaiter) {
                    return;
                }
                self.clients[client] = At::Called(self.line.remove(at));
                self.events.push(Event::Called(client));
            }
        }
    }

    /// Returns the number of free resources and places.
    pub(crate) fn free(&self) -> usize {
        let available: usize = self.keys().map(|key| self.available(key)).sum();
        available.saturating_add(self.room())
    }
}
