//! What comes back, what is idle, and what leaves.

use crate::resource_pool::rules::Defect::{ClearTakesBorrowed, LeakedLoan, MissedEviction};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Limits, Refusal, ResourcePool, Slot, SlotId, Test,
};

impl ResourcePool {
    // Lent -- returned, passivated, and valid --> idle, for whoever waits; or it leaves
    pub(crate) fn give_back(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.put_into_stock(slot, !self.planted(ReturnServesNobody));
        }
    }

    // Lent -- invalidated, or returned and not valid --> leaving
    pub(crate) fn invalidate(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.leave(slot);
            if !self.planted(InvalidateServesNobody) {
                self.settle();
            }
        }
    }

    // Lent -- detached --> no concern of the pool's
    pub(crate) fn detach(&mut self, client: ClientId) {
        if let Some(slot) = self.end_loan(client) {
            self.total[slot.key] -= 1;
            if !self.planted(DetachServesNobody) {
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
        // The original has forgotten what it has cleared.
        self.active[slot.key] = self.active[slot.key].saturating_sub(1);
        Some(slot)
    }

    /// What nobody has any more becomes idle, and goes to who waits. It leaves if it must not be lent again,
    /// or if there is no room for it.
    pub(crate) fn put_into_stock(&mut self, slot: Slot, serves: bool) {
        if self.closed && !self.planted(ReturnsToClosed)
            || slot.old && !self.planted(OldComesBack)
            || slot.expired && !self.planted(ExpiredComesBack)
            || self.has_too_many(slot.key)
        {
            self.leave(slot);
            return self.settle();
        }
        let since = self.next();
        let idle = Idle { slot, since, test: Test::No, due: false, over: false, overlooked: false };
        self.is_idle(idle, serves);
    }

    fn is_idle(&mut self, idle: Idle, serves: bool) {
        let at = match self.planted(ReturnsToWrongEnd) {
            true => 0,
            false => self.idle.partition_point(|other| other.place() < idle.place()),
        };
        self.idle.insert(at, idle);
        self.told.push(Event::Idles(idle.slot.id));
        if serves {
            self.settle();
        }
        self.trim(idle.slot.key, Some(idle.slot.id));
    }

    /// What was to make room for a hand-over that came too late is idle again, where it was; or it leaves.
    pub(crate) fn spare(&mut self, victim: Idle) {
        let Idle { slot, over, .. } = victim;
        let ended = slot.old || slot.expired || over;
        if self.closed || ended || self.has_too_many(slot.key) {
            self.leave(slot);
            return self.settle();
        }
        if self.planted(SparedIsNewest) {
            return self.put_into_stock(slot, true);
        }
        self.is_idle(victim, true);
    }

    /// There may be too many idle ones: then one leaves that nobody was waiting for, what is not finished, else
    /// what came last, else the oldest.
    pub(crate) fn trim(&mut self, key: Key, last: Option<SlotId>) {
        let called = self.planted(TrimsWhatIsCalledFor);
        let few = self.limits.max_idle.allows(self.idle_of(key).count());
        let surplus = if called { !few } else { self.surplus_of(key) };
        if !surplus || self.planted(MaxIdleIgnored) {
            return;
        }
        let is_there = |idle: &Idle| idle.slot.key == key && idle.test == Test::No;
        let find = |is: &dyn Fn(&Idle) -> bool| self.idle.iter().position(|i| is_there(i) && is(i));
        let found = find(&|idle| idle.slot.unfinished)
            .or_else(|| find(&|idle| Some(idle.slot.id) == last))
            .or_else(|| find(&|_| true));
        if let Some(surplus) = found {
            self.drop_idle(surplus);
        }
    }

    /// An idle one leaves; or if it is being tested, will.
    pub(crate) fn drop_idle(&mut self, at: usize) {
        if self.idle[at].test == Test::No {
            let slot = self.idle.remove(at).slot;
            self.leave(slot);
        } else if !self.planted(ClearForgetsTested) {
            self.idle[at].test = Test::Doomed;
        }
    }

    /// It is to be destroyed, and counts until then.
    pub(crate) fn leave(&mut self, slot: Slot) {
        self.told.push(Event::Leaves(slot.id));
        let at = self.leaving.partition_point(|other| other.key <= slot.key);
        self.leaving.insert(at, slot);
    }

    // leaving -- destroyed --> gone
    pub(crate) fn destroyed(&mut self, at: usize) {
        let slot = self.leaving.remove(at);
        self.total[slot.key] = self.total[slot.key].saturating_sub(1);
        if !self.planted(DestroyedServesNobody) {
            self.settle();
        }
    }

    // idle, not finished -- add, of the key --> adding: what was left is completed, and needs no room
    // nothing -- add, nothing was left of the key, and there is room --> adding
    pub(crate) fn add(&mut self, key: Key) {
        let begins = self.has_room_for_stock(key) && !self.closed;
        let slot = begins.then(|| match self.left_of(key) {
            Some(at) => self.idle.remove(at).slot,
            None => self.reserve(key),
        });
        let at = self.adding.partition_point(|other| other.key <= key);
        self.adding.splice(at..at, slot);
        self.told.push(Event::Adds(slot.map(|slot| slot.id)));
    }

    /// Whether one more may be made for stock.
    pub(crate) fn has_room_for_stock(&self, key: Key) -> bool {
        let stock = self.finished_of(key) + self.adding_of(key);
        let room = self.room_of(key) > 0 && self.room() > 0;
        self.limits.max_idle.left(stock) > 0 && (room || self.left_of(key).is_some())
    }

    /// The first creation of a key that was left, for who makes stock.
    fn left_of(&self, key: Key) -> Option<usize> {
        let left = |idle: &Idle| idle.slot.key == key && idle.slot.unfinished;
        self.idle.iter().position(left).filter(|_| !self.planted(StockTakesNothingOver))
    }

    /// Whether stock of a key is to be kept: something of it has been made, and anything of it stays. So a key
    /// is not tried of which nothing can be made, and one that was given up is forgotten. A pool without keys
    /// has nothing to forget.
    pub fn is_kept(&self, key: Key) -> bool {
        self.keys().len() == 1 || self.known[key] && self.staying(key) > 0
    }

    /// What is known of the keys after a step.
    pub(crate) fn look_at_keys(&mut self) {
        for key in self.keys().filter(|_| self.limits.min_idle > 0) {
            let lent = |at: &At| matches!(at, At::Lent(slot) if slot.key == key);
            let made = self.idle_of(key).any(|idle| !idle.slot.unfinished)
                || self.clients.iter().any(lent);
            self.known[key] = (self.known[key] || made) && self.total[key] > 0 && !self.closed;
        }
    }

    /// Whether stock is to be filled up: there is less than the minimum, there is room, and nobody waits
    /// who could use that.
    pub fn wants_stock(&self, key: Key) -> bool {
        let stock = self.finished_of(key) + self.adding_of(key);
        stock < self.limits.min_idle
            && self.is_kept(key)
            && self.has_room_for_stock(key)
            && !self.keys().any(|key| self.is_eligible(key))
            && !self.closed
    }

    // adding -- created --> idle, for whoever waits; or it leaves
    // adding -- it fails --> gone
    pub(crate) fn added(&mut self, at: usize, made: bool) {
        let slot = self.adding.remove(at);
        if made {
            let slot = Slot { unfinished: false, ..slot };
            self.put_into_stock(slot, !self.planted(AddedServesNobody));
        } else {
            self.total[slot.key] -= 1;
            if !self.planted(FailureServesNobody) {
                self.settle();
            }
        }
    }

    // adding -- who adds it gives up, while it is being made --> idle, not finished, for whoever waits; or it leaves
    // adding what another had begun -- the same --> gone: it is dropped, and its place given back
    pub(crate) fn cancel_add(&mut self, at: usize) {
        let slot = self.adding.remove(at);
        if slot.unfinished && !self.planted(OfferedAgain) || self.planted(CancelledAddIsLost) {
            self.total[slot.key] -= 1;
            return self.settle();
        }
        self.put_into_stock(Slot { unfinished: true, ..slot }, true);
    }

    // idle -- looked at, not being tested, finished --> under test
    pub(crate) fn test(&mut self, at: usize) {
        self.idle[at].test = Test::Running;
    }

    // under test -- valid --> idle, where it was, for whoever waits; or it leaves, if it must by now
    // under test -- not valid --> leaving
    pub(crate) fn tested(&mut self, at: usize, valid: bool) {
        let doomed = std::mem::replace(&mut self.idle[at].test, Test::No) == Test::Doomed;
        let slot = self.idle[at].slot;
        if !valid || doomed || self.has_too_many(slot.key) {
            self.drop_idle(at);
            return self.settle();
        }
        if !self.planted(TestedServesNobody) {
            self.settle();
        }
        self.trim(slot.key, Some(slot.id));
    }

    // idle -- time passes --> due
    pub(crate) fn age(&mut self, at: usize) {
        self.idle[at].due = true;
    }

    // idle -- time passes --> idle, and not to be lent any more
    pub(crate) fn outlive(&mut self, at: usize) {
        (self.idle[at].due, self.idle[at].over) = (true, true);
    }

    /// What would be lent next of the key, but must not be any more, leaves. If there is no place for another,
    /// the last of it stays: a borrower that has none gets that place.
    pub(crate) fn drop_what_is_over(&mut self, key: Key, has_place: bool) {
        while let Some(at) = self.stock_of(key).filter(|&at| self.idle[at].over) {
            let last = self.idle_of(key).filter(|idle| idle.test == Test::No).count() == 1;
            let wanted = last && !has_place && !self.planted(OverMakesNoRoom);
            if wanted || self.planted(LendsWhatIsOver) {
                return;
            }
            self.drop_idle(at);
        }
    }

    /// Whether one that is due may leave.
    pub(crate) fn may_evict(&self, idle: &Idle, hard: bool) -> bool {
        let spare = idle.slot.unfinished || self.finished_of(idle.slot.key) > self.limits.min_idle;
        idle.due
            && idle.test == Test::No
            && !idle.overlooked
            && !self.planted(NobodyEvicts)
            && (hard || spare || self.planted(SoftBelowMinimum) || self.original(MissedEviction))
    }

    // due -- evicted, and if softly: there are more than min_idle --> leaving
    pub(crate) fn evict(&mut self, at: usize, hard: bool) {
        let stock = self.finished_of(self.idle[at].slot.key);
        if !hard && self.original(MissedEviction) && stock <= self.limits.min_idle {
            self.idle[at].overlooked = true;
        } else {
            self.drop_idle(at);
        }
    }

    // lent -- its lifetime is over --> lent for the last time; what is idle is evicted
    // handed over -- its time is over --> not lent any more, to who comes for it or after that
    pub(crate) fn expire(&mut self, client: ClientId) {
        self.clients[client].slots_mut().take(1).for_each(|slot| slot.expired = true);
    }

    // every idle one --> leaving; and what is to make room for others, and does not, too
    pub(crate) fn clear(&mut self) {
        self.drop_stock();
        if self.original(ClearTakesBorrowed) {
            for slot in
                self.clients.iter().filter(|at| matches!(at, At::Lent(_))).flat_map(At::slot)
            {
                self.total[slot.key] -= 1;
                self.active[slot.key] -= 1;
            }
        }
    }

    fn drop_stock(&mut self) {
        (0..self.idle.len()).rev().for_each(|at| self.drop_idle(at));
        if !self.planted(ClearForgetsVictims) {
            let victims = self.clients.iter_mut().filter_map(|at| match at {
                At::MakingRoom { victim, handed: true, .. } => Some(victim),
                _ => None,
            });
            victims.for_each(|victim| victim.slot.old = true);
        }
    }

    // the same; and whatever there is otherwise --> old
    pub(crate) fn clear_all(&mut self) {
        self.drop_stock();
        let forgets = self.planted(CreatedKeepsItsAge);
        let lent = self.clients.iter_mut().filter(|at| !forgets || matches!(at, At::Lent(_)));
        lent.flat_map(At::slots_mut).chain(&mut self.adding).for_each(|slot| slot.old = true);
    }

    // open --> closed; who waits is refused, what is idle leaves
    pub(crate) fn close(&mut self) {
        self.closed = true;
        if !self.planted(CloseTellsNobody) {
            for waiter in std::mem::take(&mut self.line) {
                self.refuse(waiter.client, Refusal::Closed);
            }
        }
        if !self.planted(CloseKeepsStock) {
            self.drop_stock();
        }
    }

    // other limits; what is idle and too much leaves, the least recently used first
    pub(crate) fn resize(&mut self, limits: Limits) {
        self.limits = limits;
        while let Some(surplus) = self.surplus().filter(|_| !self.planted(LowersLate)) {
            self.drop_idle(surplus);
        }
        if !self.planted(ResizeServesNobody) {
            self.settle();
        }
    }

    /// First what is too much of a key, then what is in all.
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

    /// Whether more than the limits allow are there to stay, in all or of the key.
    pub(crate) fn has_too_many(&self, key: Key) -> bool {
        let in_all = self.keys().map(|key| self.staying(key)).sum();
        !self.limits.max_total.allows(in_all)
            || !self.limits.max_total_per_key.allows(self.staying(key))
    }
}
