//! The types: what there is of a resource, who borrows, who waits.

use crate::resource_pool::rules::{Defect, Planted, Rules};

/// A borrower, by its place.
pub type ClientId = usize;
/// What describes a resource, by its place; a pool that is not keyed has only key 0.
pub type Key = usize;
/// A slot, by its number.
pub type SlotId = usize;

/// A bound; none: as many as one likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub Option<usize>);

impl Limit {
    /// No bound.
    pub const NONE: Limit = Limit(None);

    /// At most so many.
    pub const fn at(number: usize) -> Limit {
        Limit(Some(number))
    }
    /// Whether so many are no more than it allows.
    pub fn allows(self, number: usize) -> bool {
        self.0.is_none_or(|limit| number <= limit)
    }
    /// How many more than so many it allows.
    pub fn left(self, number: usize) -> usize {
        self.0.map_or(usize::MAX, |limit| limit.saturating_sub(number))
    }
}

/// The limits, which may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// How many of a key may be lent, or be made ready for a borrower.
    pub max_active: Limit,
    /// How many there may be in all, to the end of their destruction; what makes room for another counts as one
    /// with it.
    pub max_total: Limit,
    /// How many of one key, to the end of their destruction.
    pub max_total_per_key: Limit,
    /// How many of a key may lie idle.
    pub max_idle: Limit,
    /// How many of a key shall lie idle.
    pub min_idle: usize,
}

impl Limits {
    /// As many as one likes of everything.
    pub const NONE: Limits = Limits {
        max_active: Limit::NONE,
        max_total: Limit::NONE,
        max_total_per_key: Limit::NONE,
        max_idle: Limit::NONE,
        min_idle: 0,
    };
}

/// What a borrower meets where `max_active` is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenExhausted {
    /// It is refused.
    Fail,
    /// It waits.
    Block,
    /// `max_active` does not count.
    Grow,
}

/// What never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// What a borrower meets where `max_active` is reached.
    pub when_exhausted: WhenExhausted,
    /// Whether newcomers wait behind those who wait.
    pub fair: bool,
    /// Whether the oldest idle one is lent, and not the newest.
    pub fifo: bool,
}

/// One resource, or the place that is reserved for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its number.
    pub id: SlotId,
    /// What it is of.
    pub key: Key,
    /// Everything has been cleared since it was made.
    pub old: bool,
    /// It has outlived its lifetime.
    pub expired: bool,
    /// It is being made, though who began it has gone; or has been taken over since.
    pub unfinished: bool,
}

/// Whether an idle resource is being tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// It is not.
    No,
    /// It is, and cannot be taken.
    Running,
    /// It is, and must leave when the test is over.
    Doomed,
}

/// An idle resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Idle {
    /// Which.
    pub slot: Slot,
    /// When it became idle: a number that grows.
    pub since: usize,
    /// Whether it is being tested.
    pub test: Test,
    /// Whether it has been idle for longer than the pool wants.
    pub due: bool,
    /// Whether it has been there for so long that it must not be lent any more.
    pub over: bool,
    /// Whether nobody will look at that again (MissedEviction).
    pub overlooked: bool,
}

/// Somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// Who.
    pub client: ClientId,
    /// For what.
    pub key: Key,
    /// When it came: a number that grows.
    pub ticket: usize,
}

/// Where a borrower is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It has nothing, and wants nothing.
    Out,
    /// It waits in line.
    Waiting(Key),
    /// It has been called to try again.
    Called(Waiter),
    /// It destroys a resource, in whose place it creates another then.
    MakingRoom {
        /// The place for that.
        slot: Slot,
        /// What is destroyed.
        victim: Idle,
        /// The borrower had waited, and may not have awoken yet.
        handed: bool,
    },
    /// It creates a resource, or completes what another has begun.
    Creating {
        /// The place for it.
        slot: Slot,
        /// The borrower had waited, and may not have awoken yet.
        handed: bool,
    },
    /// It activates and validates a resource.
    Preparing {
        /// Which.
        slot: Slot,
        /// It was made for this borrower, and is not out of stock.
        fresh: bool,
        /// The borrower had waited, and may not have awoken yet.
        handed: bool,
    },
    /// It has a resource.
    Lent(Slot),
}

impl Idle {
    /// The order of what is idle.
    pub(crate) fn place(&self) -> (bool, usize) {
        (!self.slot.unfinished, self.since)
    }
}

impl At {
    /// The slot that its borrower has.
    pub fn slot(&self) -> Option<&Slot> {
        match self {
            At::MakingRoom { slot, .. }
            | At::Creating { slot, .. }
            | At::Preparing { slot, .. }
            | At::Lent(slot) => Some(slot),
            At::Out | At::Waiting(_) | At::Called(_) => None,
        }
    }
    /// What is to make room for it, and is not destroyed yet.
    pub fn victim(&self) -> Option<&Idle> {
        if let At::MakingRoom { victim, .. } = self { Some(victim) } else { None }
    }
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        let (slot, victim) = match self {
            At::MakingRoom { slot, victim, .. } => (Some(slot), Some(&mut victim.slot)),
            At::Creating { slot, .. } | At::Preparing { slot, .. } | At::Lent(slot) => {
                (Some(slot), None)
            }
            At::Out | At::Waiting(_) | At::Called(_) => (None, None),
        };
        slot.into_iter().chain(victim)
    }
}

/// Why a borrower is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Refusal {
    Closed,
    Exhausted,
    WouldBlock,
    /// It gave up, or its time was up.
    GaveUp,
    /// What it created failed.
    Failed,
}

/// What an action told somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Event {
    Waits(ClientId),
    /// It is to activate and validate this one.
    Takes(ClientId, SlotId),
    /// It is to create this one, after it has destroyed the victim.
    Creates(ClientId, SlotId, Option<SlotId>),
    /// It is to complete this one.
    Completes(ClientId, SlotId),
    /// It is to try again.
    Called(ClientId),
    /// It has this one.
    Has(ClientId, SlotId),
    Refused(ClientId, Refusal),
    /// This one is to be created for stock; none: there is no room, or the pool is closed.
    Adds(Option<SlotId>),
    /// It became idle.
    Idles(SlotId),
    /// It is to be destroyed.
    Leaves(SlotId),
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePool {
    /// What is as in the original.
    pub rules: Rules,
    /// What never changes.
    pub options: Options,
    /// What may change.
    pub limits: Limits,
    /// Of each key: how many are lent, or made ready for a borrower. Counted, as the pool does.
    pub active: Vec<usize>,
    /// Of each key: how many there are, to the end of their destruction, those included that make room for
    /// another key. Counted, too.
    pub total: Vec<usize>,
    /// Of each key, where there is a minimum: whether one has been made since there was none of it.
    pub known: Vec<bool>,
    /// What is idle, of all keys: what is not finished first, then the least recently used.
    pub idle: Vec<Idle>,
    /// What is being created for stock.
    pub adding: Vec<Slot>,
    /// What is being destroyed.
    pub leaving: Vec<Slot>,
    /// Who waits, for all keys, in the order in which they came.
    pub line: Vec<Waiter>,
    /// The borrowers.
    pub clients: Vec<At>,
    /// Whether it is closed.
    pub closed: bool,
    /// How many slots there have been.
    pub made: usize,
    /// How many came to wait, and how many became idle.
    pub came: usize,
    /// What the last action told; no part of the normal form.
    pub told: Vec<Event>,
}

impl ResourcePool {
    /// An empty pool.
    pub fn new(
        rules: Rules,
        options: Options,
        limits: Limits,
        keys: usize,
        clients: usize,
    ) -> ResourcePool {
        ResourcePool {
            rules,
            options,
            limits,
            active: vec![0; keys],
            total: vec![0; keys],
            known: vec![false; keys],
            idle: vec![],
            adding: vec![],
            leaving: vec![],
            line: vec![],
            clients: vec![At::Out; clients],
            closed: false,
            made: 0,
            came: 0,
            told: vec![],
        }
    }
    pub(crate) fn original(&self, defect: Defect) -> bool {
        self.rules.original(defect)
    }
    pub(crate) fn planted(&self, fault: Planted) -> bool {
        self.rules.has(fault)
    }
    /// How many there are in all: what makes room for another key counts as one with that.
    pub fn num_total(&self) -> usize {
        let room = self.keys().map(|key| self.making_room(key)).sum::<usize>();
        let room = if self.planted(Planted::VictimKeepsItsPlace) { 0 } else { room };
        self.total.iter().sum::<usize>() - room
    }
    /// How many of a key make room for another key, and are not destroyed yet.
    pub fn making_room(&self, key: Key) -> usize {
        let makes_room = |at: &&At| match at {
            At::MakingRoom { slot, victim, .. } => victim.slot.key == key && slot.key != key,
            _ => false,
        };
        self.clients.iter().filter(makes_room).count()
    }
    /// What is idle of a key, in that order.
    pub fn idle_of(&self, key: Key) -> impl DoubleEndedIterator<Item = &Idle> {
        self.idle.iter().filter(move |idle| idle.slot.key == key)
    }
    /// How many of these are finished.
    pub fn finished_of(&self, key: Key) -> usize {
        self.idle_of(key).filter(|idle| !idle.slot.unfinished).count()
    }
    /// How many idle ones there are of a key that are too many, if so many are: who was called is on its way
    /// to one.
    pub fn surplus_of(&self, key: Key) -> bool {
        let called = self.called(|waiter| waiter.key == key);
        !self.limits.max_idle.allows(self.idle_of(key).count().saturating_sub(called))
    }
    /// How many are being created for the stock of a key.
    pub fn adding_of(&self, key: Key) -> usize {
        self.adding.iter().filter(|slot| slot.key == key).count()
    }
    /// How many there are of a key that neither leave nor make room for another key.
    pub fn staying(&self, key: Key) -> usize {
        let leaving = self.leaving.iter().filter(|slot| slot.key == key).count();
        self.total[key] - leaving - self.making_room(key)
    }
    /// All keys.
    pub fn keys(&self) -> std::ops::Range<Key> {
        0..self.total.len()
    }
    /// A number that grows.
    pub(crate) fn next(&mut self) -> usize {
        self.came += 1;
        self.came
    }
}
