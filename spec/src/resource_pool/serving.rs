//! Who is served, and with what: the line, and what every section that frees something ends with.
//!
//! Capacity is reserved here and nowhere else, before it is used; a borrower that was served keeps its place
//! until it gives it back, however many resources fail it.

use crate::resource_pool::rules::Defect::{HoardedMinimum, UnboundedTotal};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, ResourcePool, Slot, Test, Waiter, WhenExhausted,
};

/// With what a borrower can be served; both are places in the list of idle ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// With a resource of its key's stock.
    Take(usize),
    /// With a new one; if there is no room, in the place of one of its stock that must not be lent any more, or
    /// of an idle one of another key.
    Create(Option<usize>),
}

impl ResourcePool {
    /// Whether one more of the key may be lent.
    pub fn may_lend(&self, key: Key) -> bool {
        self.limits.max_active.left(self.active[key]) > 0
            || self.options.when_exhausted == WhenExhausted::Grow
            || self.planted(MaxActiveIgnored)
    }

    /// What is lent next of a key's stock: the newest, or the oldest if the pool is `fifo`; if there is nothing
    /// finished, what was left first. What is being tested is passed over.
    pub(crate) fn stock_of(&self, key: Key) -> Option<usize> {
        let takeable = |idle: &Idle| idle.test == Test::No || self.planted(TestedIsTaken);
        let of = |unfinished: bool| {
            (0..self.idle.len()).filter(move |&at| {
                let idle = &self.idle[at];
                idle.slot.key == key && idle.slot.unfinished == unfinished && takeable(idle)
            })
        };
        if self.planted(UnfinishedFirst) && of(true).next().is_some() {
            return of(true).next();
        }
        let oldest = self.options.fifo != self.planted(TakesFromWrongEnd);
        let finished = if oldest { of(false).next() } else { of(false).next_back() };
        finished.or_else(|| of(true).next())
    }

    /// What makes room for another key: what is not finished, else the least recently used of those that are not
    /// being tested.
    fn least_recently_used(&self) -> Option<usize> {
        let mut idle = (0..self.idle.len()).filter(|&at| self.idle[at].test == Test::No);
        if self.planted(VictimIsNewest) { idle.next_back() } else { idle.next() }
    }

    /// How many more of the key there may be, by its own limit.
    pub(crate) fn room_of(&self, key: Key) -> usize {
        if self.planted(MaxTotalPerKeyIgnored) {
            return usize::MAX;
        }
        let forgotten = if self.planted(VictimForgetsItsKey) { self.making_room(key) } else { 0 };
        self.limits.max_total_per_key.left(self.total[key] - forgotten)
    }

    /// How many more there may be in all.
    pub(crate) fn room(&self) -> usize {
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        if self.original(UnboundedTotal) || grows && self.planted(GrowIgnoresTotal) {
            return usize::MAX;
        }
        self.limits.max_total.left(self.num_total())
    }

    /// Whether one more of the key may exist.
    pub(crate) fn has_place(&self, key: Key) -> bool {
        self.room_of(key) > 0 && self.room() > 0
    }

    /// With what a borrower of the key can be served now: its own stock, else a new one where there is
    /// room, else a new one in the place of one of its own that must not be lent any more, else in that of the least
    /// recently used of another key. Where there are too
    /// many for a lowered limit none is idle but those being tested, so no place of theirs is passed on.
    pub fn serving(&self, key: Key) -> Option<Serving> {
        if !self.may_lend(key) {
            return None;
        }
        let hoarded =
            self.original(HoardedMinimum) && self.idle_of(key).count() <= self.limits.min_idle;
        if let Some(at) = self.stock_of(key).filter(|_| !hoarded) {
            let lent = !self.idle[at].over || self.planted(LendsWhatIsOver);
            Some(if lent { Serving::Take(at) } else { Serving::Create(Some(at)) })
        } else if self.room_of(key) == 0 {
            None
        } else if self.room() > 0 {
            Some(Serving::Create(None))
        } else {
            self.least_recently_used().map(|at| Serving::Create(Some(at)))
        }
    }

    /// Reserves it for the borrower.
    pub(crate) fn serve(&mut self, client: ClientId, key: Key, serving: Serving, handed: bool) {
        self.active[key] += 1;
        match serving {
            Serving::Take(at) => self.take(client, at, handed),
            Serving::Create(victim) => {
                let victim = victim.map(|at| self.idle.remove(at));
                // One of another key is counted by its own until it has been destroyed.
                let own = victim.is_some_and(|victim| victim.slot.key == key);
                self.total[key] -= usize::from(own);
                let slot = self.reserve(key);
                let id = victim.map(|victim| victim.slot.id);
                self.told.push(Event::Creates(client, slot.id, id));
                self.clients[client] = match victim {
                    Some(victim) => At::MakingRoom { slot, victim, handed },
                    None => At::Creating { slot, handed },
                };
            }
        }
    }

    /// The borrower, which has its place, takes one out of stock.
    pub(crate) fn take(&mut self, client: ClientId, at: usize, handed: bool) {
        let kept = self.planted(StockIsKept);
        let slot = if kept { self.idle[at].slot } else { self.idle.remove(at).slot };
        self.clients[client] = if slot.unfinished {
            self.told.push(Event::Completes(client, slot.id));
            At::Creating { slot, handed }
        } else {
            self.told.push(Event::Takes(client, slot.id));
            At::Preparing { slot, fresh: false, handed }
        };
    }

    /// A slot for one more of the key.
    pub(crate) fn reserve(&mut self, key: Key) -> Slot {
        self.made += 1;
        self.total[key] += 1;
        Slot { id: self.made, key, old: false, expired: false, unfinished: false }
    }

    /// Whether somebody waits for the key whom its own limits let be served. Whoever was called counts as
    /// if it had been.
    pub(crate) fn is_eligible(&self, key: Key) -> bool {
        let called = self.called(|waiter| waiter.key == key);
        let stock = self.idle_of(key).filter(|idle| idle.test == Test::No).count();
        let grows = self.options.when_exhausted == WhenExhausted::Grow;
        self.line.iter().any(|waiter| waiter.key == key)
            && stock.saturating_add(self.room_of(key)) > called
            && (grows
                || self.limits.max_active.left(self.active[key]) > called
                || self.planted(MaxActiveIgnored))
    }

    /// How many of these have been called.
    pub(crate) fn called(&self, which: impl Fn(&Waiter) -> bool) -> usize {
        let called = |at: &&At| matches!(at, At::Called(waiter) if which(waiter));
        self.clients.iter().filter(called).count()
    }

    /// The oldest waiter whose key is eligible, by its place in the line.
    fn first_in_line(&self) -> Option<usize> {
        if self.planted(FullKeyBlocks) {
            return (!self.line.is_empty()).then_some(0);
        }
        let mut line = (0..self.line.len()).filter(|&at| self.is_eligible(self.line[at].key));
        if self.planted(LastComeFirstServed) { line.next_back() } else { line.next() }
    }

    /// What is free goes to those in line, the oldest first, until there is nothing for the first of them:
    /// then there is nothing for any.
    pub(crate) fn settle(&mut self) {
        while !self.closed || self.planted(ClosedLends) {
            let Some(at) = self.first_in_line() else { return };
            let Waiter { client, key, .. } = self.line[at];
            if self.options.fair {
                self.drop_what_is_over(key, self.has_place(key));
                let Some(serving) = self.serving(key) else { return };
                self.line.remove(at);
                self.serve(client, key, serving, true);
            } else {
                if self.free() <= self.called(|_| true) || self.planted(CallsNobody) {
                    return;
                }
                self.clients[client] = At::Called(self.line.remove(at));
                self.told.push(Event::Called(client));
            }
        }
    }

    /// How many resources and places there are to be had, by whoever may have them.
    pub(crate) fn free(&self) -> usize {
        let stock = self.idle.iter().filter(|idle| idle.test == Test::No).count();
        stock.saturating_add(self.room())
    }
}
