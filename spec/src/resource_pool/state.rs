//! The state: resources, borrowers and waiters.

use crate::resource_pool::rules::{Defect, Planted, Rules};

/// A borrower, by its index.
pub type ClientId = usize;
/// A key, by its index. An unkeyed pool has only key 0.
pub type Key = usize;
/// A slot, by its number.
pub type SlotId = usize;

/// An upper bound, or `None` for no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit(pub Option<usize>);

impl Limit {
    /// No bound.
    pub const NONE: Limit = Limit(None);

    /// Returns the bound `number`.
    pub const fn at(number: usize) -> Limit {
        Limit(Some(number))
    }
    /// Returns whether the bound allows `number`.
    pub fn allows(self, number: usize) -> bool {
        self.0.is_none_or(|limit| number <= limit)
    }
    /// Returns how many more than `number` the bound allows.
    pub fn left(self, number: usize) -> usize {
        self.0.map_or(usize::MAX, |limit| limit.saturating_sub(number))
    }
}

/// The limits, which may change at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The largest number of active resources of a key: lent ones, and those that a borrower prepares.
    pub max_active: Limit,
    /// The largest number of resources of the pool, until the end of their destruction. An eviction victim and the slot
    /// in its place count as one.
    pub max_total: Limit,
    /// The largest number of resources of one key, until the end of their destruction.
    pub max_total_per_key: Limit,
    /// The largest number of idle resources of a key.
    pub max_idle: Limit,
    /// The number of idle resources of a key that the pool maintains.
    pub min_idle: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Limits = Limits {
        max_active: Limit::NONE,
        max_total: Limit::NONE,
        max_total_per_key: Limit::NONE,
        max_idle: Limit::NONE,
        min_idle: 0,
    };
}

/// The behaviour of a pool that has reached `max_active`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenExhausted {
    /// Refuses the borrower.
    Fail,
    /// Lets the borrower wait.
    Block,
    /// Ignores `max_active`.
    Grow,
}

/// The options, which never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The behaviour at `max_active`.
    pub when_exhausted: WhenExhausted,
    /// Whether newcomers queue behind the waiters of their key.
    pub fair: bool,
    /// Whether the oldest idle resource is lent, not the newest.
    pub fifo: bool,
    /// How many races a waiter may lose to newcomers, if they may barge. Then it is served directly. 0 in a fair pool: there
    /// each waiter counts as one that has lost its races.
    pub races: usize,
    /// Whether the pool creates, and not its borrowers: it has a place to run creations.
    pub creates: bool,
    /// The largest number of creations that the pool runs at the same time. Overdue ones do not count.
    pub max_creating: Limit,
}

/// One resource, or the place that is reserved for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Its number.
    pub id: SlotId,
    /// Its key.
    pub key: Key,
    /// Whether everything was cleared after its creation began.
    pub old: bool,
    /// Whether it has outlived its lifetime.
    pub expired: bool,
    /// When the pool ordered it, as a growing number; or 0, if a caller adds it.
    pub ordered: usize,
    /// Whether its creation takes so long that it may hang.
    pub overdue: bool,
    /// Whether its creation hangs. It then ends by its limit, without a resource.
    pub hangs: bool,
    /// The eviction victim that is destroyed before an ordered creation begins.
    pub evicts: Option<(SlotId, Key)>,
    /// Whether it was ordered, and is dropped by its task.
    pub dropped: bool,
}

impl Slot {
    /// A slot without a number.
    pub(crate) const NEW: Slot = Slot {
        id: 0,
        key: 0,
        old: false,
        expired: false,
        ordered: 0,
        overdue: false,
        hangs: false,
        evicts: None,
        dropped: false,
    };

    /// Returns the slot of a creation that has ended.
    pub(crate) fn back(self) -> Slot {
        Slot { ordered: 0, overdue: false, hangs: false, evicts: None, dropped: false, ..self }
    }
    /// Returns whether the creation has a victim of another key.
    pub(crate) fn evicts_of(&self, key: Key) -> bool {
        self.key != key && self.evicts.is_some_and(|(_, victims)| victims == key)
    }
}

/// Whether an idle resource is being tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// It is not under test.
    No,
    /// It is under test, and cannot be taken.
    Running,
    /// It is under test, and must leave when the test ends.
    Doomed,
}

/// An idle resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Idle {
    /// Its slot.
    pub slot: Slot,
    /// The time when it became idle, as a growing number.
    pub since: usize,
    /// Whether it is under test.
    pub test: Test,
    /// Whether it has been idle for so long that it may be evicted.
    pub due: bool,
    /// Whether it must not be lent again, by its age or idle time.
    pub expired: bool,
    /// Whether the pool will not consider it for eviction again (defect `elixir-missed-eviction`).
    pub overlooked: bool,
    /// Whether it was ordered, and no borrower has had it yet.
    pub fresh: bool,
}

/// A waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiter {
    /// The borrower.
    pub client: ClientId,
    /// The key that it waits for.
    pub key: Key,
    /// The time of its arrival, as a growing number.
    pub ticket: usize,
    /// How many races it has lost.
    pub lost: usize,
}

/// The state of a borrower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It has no resource and does not wait.
    Out,
    /// It waits in line.
    Waiting(Key),
    /// It was called to retry.
    Called(Waiter),
    /// It destroys an eviction victim, in whose place it then creates a resource.
    Evicting {
        /// The place for the new resource.
        slot: Slot,
        /// The eviction victim.
        victim: Idle,
        /// Whether the borrower waited and has not picked up its grant yet.
        granted: bool,
    },
    /// It creates a resource.
    Creating {
        /// The place for the resource.
        slot: Slot,
        /// Whether the borrower waited and has not picked up its grant yet.
        granted: bool,
    },
    /// It activates and validates a resource.
    Activating {
        /// The slot of the resource.
        slot: Slot,
        /// Whether it was created for this borrower, or ordered and no other borrower had it.
        fresh: bool,
        /// Whether the borrower waited and has not picked up its grant yet.
        granted: bool,
    },
    /// It has a resource.
    Lent(Slot),
}

impl At {
    /// Returns the slot that the borrower has.
    pub fn slot(&self) -> Option<&Slot> {
        match self {
            At::Evicting { slot, .. }
            | At::Creating { slot, .. }
            | At::Activating { slot, .. }
            | At::Lent(slot) => Some(slot),
            At::Out | At::Waiting(_) | At::Called(_) => None,
        }
    }
    /// Returns the eviction victim, until it is destroyed.
    pub fn victim(&self) -> Option<&Idle> {
        if let At::Evicting { victim, .. } = self { Some(victim) } else { None }
    }
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        let (slot, victim) = match self {
            At::Evicting { slot, victim, .. } => (Some(slot), Some(&mut victim.slot)),
            At::Creating { slot, .. } | At::Activating { slot, .. } | At::Lent(slot) => {
                (Some(slot), None)
            }
            At::Out | At::Waiting(_) | At::Called(_) => (None, None),
        };
        slot.into_iter().chain(victim)
    }
}

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Refusal {
    Closed,
    Exhausted,
    WouldBlock,
    /// The borrower gave up, or its deadline passed.
    GaveUp,
    /// Its creation failed.
    Failed,
}

/// An event of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Event {
    Waits(ClientId),
    /// The borrower takes this resource, and activates and validates it.
    Takes(ClientId, SlotId),
    /// The borrower creates this resource, after it has destroyed the victim, if there is one.
    Creates(ClientId, SlotId, Option<SlotId>),
    /// The borrower retries.
    Called(ClientId),
    /// The borrower has this resource.
    Has(ClientId, SlotId),
    Refused(ClientId, Refusal),
    /// This resource is created for the idle list. `None`: there is no room, or the pool is closed.
    Adds(Option<SlotId>),
    /// The pool creates this resource, after it has destroyed the victim, if there is one.
    Orders(SlotId, Option<SlotId>),
    /// The resource became idle.
    Idles(SlotId),
    /// The resource leaves, and is destroyed.
    Leaves(SlotId),
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourcePool {
    /// The rules.
    pub rules: Rules,
    /// The options.
    pub options: Options,
    /// The limits.
    pub limits: Limits,
    /// The number of active resources of each key, counted as the pool counts.
    pub active: Vec<usize>,
    /// The number of resources of each key until the end of their destruction, counted as the pool counts. Eviction
    /// victims for other keys are included.
    pub total: Vec<usize>,
    /// For each key, if there is a minimum: whether a resource was created since the key was last empty.
    pub known: Vec<bool>,
    /// The idle list of all keys, the least recently used first.
    pub idle: Vec<Idle>,
    /// The resources that the pool creates, and those that a caller adds to the idle list.
    pub adding: Vec<Slot>,
    /// The resources that are being destroyed.
    pub leaving: Vec<Slot>,
    /// The waiters of all keys, in the order of their arrival.
    pub line: Vec<Waiter>,
    /// The borrowers.
    pub clients: Vec<At>,
    /// Their arrivals, as growing numbers, while they borrow.
    pub tickets: Vec<usize>,
    /// Whether it is closed.
    pub closed: bool,
    /// Whether the pool creates at present. Its runtime may end, and come back.
    pub creates: bool,
    /// The number of slots so far.
    pub made: usize,
    /// The last ticket or idle time that was given out.
    pub came: usize,
    /// The events of the last action. The normal form has none.
    pub events: Vec<Event>,
}

impl ResourcePool {
    /// Returns an empty pool.
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
            tickets: vec![0; clients],
            closed: false,
            creates: options.creates,
            made: 0,
            came: 0,
            events: vec![],
        }
    }
    pub(crate) fn original(&self, defect: Defect) -> bool {
        self.rules.original(defect)
    }
    pub(crate) fn planted(&self, fault: Planted) -> bool {
        self.rules.has(fault)
    }
    /// Returns the number of resources of the pool. An eviction victim and the slot in its place count as one.
    pub fn num_total(&self) -> usize {
        let room = self.keys().map(|key| self.victims_for_others(key)).sum::<usize>();
        let room = if self.planted(Planted::VictimKeepsItsPlace) { 0 } else { room };
        self.total.iter().sum::<usize>() - room
    }
    /// Returns the number of victims of a key that are evicted for another key.
    pub fn victims_for_others(&self, key: Key) -> usize {
        let evicts = |at: &&At| match at {
            At::Evicting { slot, victim, .. } => victim.slot.key == key && slot.key != key,
            _ => false,
        };
        let of_orders = self.adding.iter().chain(&self.leaving).filter(|slot| slot.evicts_of(key));
        self.clients.iter().filter(evicts).count() + of_orders.count()
    }
    /// Returns the idle resources of a key, in the order of the idle list.
    pub fn idle_of(&self, key: Key) -> impl DoubleEndedIterator<Item = &Idle> {
        self.idle.iter().filter(move |idle| idle.slot.key == key)
    }
    /// Returns their number.
    pub fn num_idle_of(&self, key: Key) -> usize {
        self.idle_of(key).count()
    }
    /// Returns whether a key has more idle resources than `max_idle` allows. Each called waiter is about to take one.
    pub fn surplus_of(&self, key: Key) -> bool {
        let called = self.called(|waiter| waiter.key == key);
        !self.limits.max_idle.allows(self.num_idle_of(key).saturating_sub(called))
    }
    /// Returns the number of resources of a key that are being created for the idle list.
    pub fn adding_of(&self, key: Key) -> usize {
        self.adding.iter().filter(|slot| slot.key == key).count()
    }
    /// Returns the number of resources of a key that neither leave nor are evicted for another key.
    pub fn staying(&self, key: Key) -> usize {
        let leaving = self.leaving.iter().filter(|slot| slot.key == key).count();
        self.total[key] - leaving - self.victims_for_others(key)
    }
    /// Returns all keys.
    pub fn keys(&self) -> std::ops::Range<Key> {
        0..self.total.len()
    }
    /// Returns the next ticket or idle time.
    pub(crate) fn next(&mut self) -> usize {
        self.came += 1;
        self.came
    }
}
