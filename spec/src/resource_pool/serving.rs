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
            || self.options.when_exhausted == WhenExhausted::Grow
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

    /// Returns the eviction victim: the least recently used resource that is not under test.
    fn least_recently_used(&self) -> Option<usize> {
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
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        if self.original(UnboundedTotal) || grows && self.planted(GrowIgnoresTotal) {
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
    /// Beyond a lowered limit only resources under test are idle, so their places are not passed on.
    pub fn serving(&self, key: Key) -> Option<Serving> {
        if !self.may_lend(key) {
            return None;
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
                    None => At::Creating { slot, awaits: false, granted },
                };
            }
        }
    }

    /// Takes an idle resource for the borrower, whose place is reserved.
    pub(crate) fn take(&mut self, client: ClientId, at: usize, granted: bool) {
        let kept = self.planted(TakenStaysIdle);
        let slot = if kept { self.idle[at].slot } else { self.idle.remove(at).slot };
        self.events.push(Event::Takes(client, slot.id));
        self.clients[client] = At::Activating { slot, fresh: false, granted };
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
        let available = self.idle_of(key).filter(|idle| idle.test == Test::No).count();
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        self.line.iter().any(|waiter| waiter.key == key)
            && available.saturating_add(self.room_of(key)) > called
            && (grows
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

    /// Returns the oldest borrower that creates and waits, among those that could take an idle resource of their key.
    fn first_creating(&self) -> Option<ClientId> {
        let takes = |client: &ClientId| match self.clients[*client] {
            At::Creating { slot, awaits: true, .. } => self.next_idle(slot.key).is_some(),
            _ => false,
        };
        let could = (0..self.clients.len()).filter(takes);
        could
            .min_by_key(|&client| self.tickets[client])
            .filter(|_| !self.planted(CreationsAreAlone))
    }

    /// Gives a borrower that creates an idle resource instead. Its creation goes on without it.
    fn serve_creation(&mut self, client: ClientId) {
        let At::Creating { slot, .. } = self.clients[client] else { return };
        self.drop_expired(slot.key, true);
        let Some(at) = self.next_idle(slot.key) else { return };
        self.leave_behind(slot, self.planted(ServedGivesWay));
        self.take(client, at, true);
    }

    /// Turns a borrower's creation into one without a borrower.
    pub(crate) fn leave_behind(&mut self, slot: Slot, given_up: bool) {
        let left = self.next();
        let at = self.adding.partition_point(|other| other.key <= slot.key);
        self.adding.insert(at, Slot { left, given_up, ..slot });
    }

    /// Makes a creation give way, if a waiter of the key needs its place: one that is overdue, or else the one that was
    /// given up last. The last one of all stays until it is overdue.
    pub(crate) fn make_way(&mut self, key: Key) {
        let waits = self.line.iter().any(|waiter| waiter.key == key);
        if !waits || !self.may_lend(key) || self.has_place(key) || self.planted(LeftStays) {
            return;
        }
        let own = self.room_of(key) == 0;
        let could = |slot: &Slot| slot.left > 0 && (slot.key == key || !own);
        let all = (0..self.adding.len()).filter(|&at| could(&self.adding[at]));
        let (overdue, left): (Vec<_>, Vec<_>) = all.partition(|&at| self.adding[at].overdue);
        let overdue = overdue.into_iter().min_by_key(|&at| self.adding[at].left);
        let given_up = left.iter().copied().filter(|&at| self.adding[at].given_up);
        let last = given_up.max_by_key(|&at| self.adding[at].left).filter(|_| left.len() > 1);
        if let Some(at) = overdue.filter(|_| !self.planted(OverdueStays)).or(last) {
            let slot = self.adding.remove(at);
            self.leave(slot.back());
        }
    }

    /// The same for the waiters of the key, and else for the oldest waiter, after a creation of the key was left.
    pub(crate) fn make_way_for_line(&mut self, key: Key) {
        self.make_way(key);
        let first = self.first_in_line().map(|at| self.line[at].key);
        if let Some(first) = first.filter(|&first| first != key) {
            self.make_way(first);
        }
    }

    /// Serves the borrowers that wait, the oldest first, until the first of them cannot be served. Then no other can.
    pub(crate) fn settle(&mut self) {
        while !self.closed || self.planted(ClosedLends) {
            let (waits, creates) = (self.first_in_line(), self.first_creating());
            // The called waiters come first to all that is free.
            if !self.options.fair && self.free() <= self.called(|_| true) {
                return;
            }
            let before = |client: &ClientId| {
                waits.is_none_or(|at| self.tickets[*client] < self.line[at].ticket)
            };
            if let Some(client) = creates.filter(before) {
                self.serve_creation(client);
                continue;
            }
            let Some(at) = waits else { return };
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
        let available = self.idle.iter().filter(|idle| idle.test == Test::No).count();
        available.saturating_add(self.room())
    }
}
