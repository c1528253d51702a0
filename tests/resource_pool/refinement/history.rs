//! The operations of a random history.
//!
//! An operation names its objects by small numbers, modulo how many there are when its turn comes.
//! So every prefix and every shrunk history can happen.

use cabrank_spec::resource_pool::state::{self, Options, WhenExhausted};
use proptest::prelude::*;

/// How many races a waiter of the real pool may lose.
pub(crate) const RACES: usize = 1024;

/// A limit, as the real pool takes it.
pub(crate) type Number = Option<usize>;

/// The limits that can be changed. `None` is no limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) active: Number,
    pub(crate) total: Number,
    pub(crate) per_key: Number,
    /// If absent, as `active`.
    pub(crate) idle: Option<Number>,
    pub(crate) min_idle: usize,
}

/// A pool and its factory.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) keyed: bool,
    /// Whether the factory is asynchronous.
    pub(crate) tasks: bool,
    pub(crate) options: Options,
    pub(crate) bounds: Bounds,
    pub(crate) test_on_create: bool,
    pub(crate) test_on_borrow: bool,
    pub(crate) test_on_return: bool,
    pub(crate) test_while_idle: bool,
    /// In seconds.
    pub(crate) max_idle_time: Option<u64>,
    pub(crate) soft_max_idle_time: Option<u64>,
    pub(crate) max_lifetime: Option<u64>,
    pub(crate) destroy_panics: bool,
}

/// How a call of the factory ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Well,
    /// An error, or invalid.
    Badly,
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Active(Number),
    Total(Number),
    PerKey(Number),
    Idle(Number),
    MinIdle(usize),
}

impl Limit {
    /// Returns whether the change may let waiters of several keys be served, or lets the keys compete for places.
    pub(crate) fn is_for_all_keys(self) -> bool {
        matches!(self, Limit::Active(_) | Limit::Total(_) | Limit::PerKey(_))
    }
}

/// One call of the public API, or one event in the pool's environment. `ends` are the ends of the
/// factory's calls; when they run out, a task pends, and a thread's calls succeed.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// An idle borrower asks, as a future.
    Borrow {
        client: usize,
        key: usize,
        waits: bool,
        ends: Vec<End>,
    },
    /// The same on the test's own thread, with a deadline that has already come if it would wait.
    Block {
        client: usize,
        key: usize,
        ends: Vec<End>,
    },
    /// A task runs.
    Run {
        nth: usize,
        ends: Vec<End>,
    },
    /// The time of a borrow is over, in a pool with a runtime. Then its task runs.
    TooLate {
        nth: usize,
        ends: Vec<End>,
    },
    /// A task is dropped.
    Cancel {
        nth: usize,
    },
    Return {
        nth: usize,
        ends: Vec<End>,
    },
    /// Awaited.
    PutBack {
        nth: usize,
        ends: Vec<End>,
    },
    Invalidate {
        nth: usize,
    },
    Detach {
        nth: usize,
    },
    /// Its borrower panics.
    Die {
        nth: usize,
    },
    Add {
        key: usize,
        ends: Vec<End>,
    },
    RunAdd {
        nth: usize,
        ends: Vec<End>,
    },
    CancelAdd {
        nth: usize,
    },
    Retain {
        odd: bool,
    },
    /// Moves the clock by so many seconds, without maintenance.
    Pass {
        seconds: u64,
    },
    /// Moves the clock by so many seconds, and maintains the pool.
    Tick {
        seconds: u64,
        ends: Vec<End>,
    },
    /// The task of a creation runs that the pool has ordered.
    RunOrder {
        nth: usize,
        ends: Vec<End>,
    },
    /// A creation that the pool has ordered is overdue. Then its task runs.
    Overdue {
        nth: usize,
        ends: Vec<End>,
    },
    /// A creation that the pool has ordered takes longer than its limit.
    TimeOut {
        nth: usize,
    },
    Clear,
    ClearAll,
    Close,
    Resize(Limit),
    /// The nth call of the factory, within the operation, calls the pool itself.
    Within {
        nth: usize,
        inner: Inner,
        operation: Box<Operation>,
    },
}

/// A call of the pool by its factory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inner {
    Clear,
    ClearAll,
    Close,
    Resize(Limit),
    /// A borrower of its own asks, as a future.
    Borrow {
        key: usize,
    },
    Return {
        nth: usize,
    },
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![8 => Just(End::Well), 3 => Just(End::Badly), 1 => Just(End::Panic)]
}
fn ends() -> impl Strategy<Value = Vec<End>> {
    prop::collection::vec(end(), 0..=6)
}
fn number(most: usize) -> impl Strategy<Value = Number> {
    prop_oneof![1 => Just(None), 4 => (1..=most).prop_map(Some)]
}

pub(crate) fn world() -> impl Strategy<Value = World> {
    let when = prop_oneof![
        6 => Just(WhenExhausted::Block),
        1 => Just(WhenExhausted::Fail),
        2 => Just(WhenExhausted::Grow),
    ];
    let creates = (prop::bool::weighted(0.6), prop::option::weighted(0.3, 1..=2usize));
    let options = (when, prop::bool::weighted(0.7), any::<bool>(), creates).prop_map(
        |(when_exhausted, fair, fifo, (creates, creating))| Options {
            when_exhausted,
            fair,
            fifo,
            races: RACES,
            creates,
            max_creating: state::Limit(creating),
        },
    );
    let idle = prop::option::of(prop_oneof![3 => number(3), 1 => Just(Some(0))]);
    let bounds = (number(3), number(4), number(2), idle, 0..=2usize).prop_map(
        |(active, total, per_key, idle, min_idle)| Bounds {
            active,
            total,
            per_key,
            idle,
            min_idle,
        },
    );
    let tests = prop::array::uniform4(any::<bool>());
    let times = (prop::option::of(2..6u64), prop::option::of(1..4u64), prop::option::of(2..9u64));
    (any::<bool>(), any::<bool>(), options, bounds, tests, times, prop::bool::weighted(0.1))
        .prop_map(|(keyed, tasks, options, bounds, tests, times, destroy_panics)| World {
            keyed,
            tasks,
            options,
            bounds,
            test_on_create: tests[0],
            test_on_borrow: tests[1],
            test_on_return: tests[2],
            test_while_idle: tests[3],
            max_idle_time: times.0,
            soft_max_idle_time: times.1,
            max_lifetime: times.2,
            destroy_panics,
        })
        .prop_map(World::valid)
}

impl World {
    /// Returns the names of what is not left as it is by default.
    pub(crate) fn set_options(&self) -> Vec<&'static str> {
        let (options, bounds) = (&self.options, &self.bounds);
        let all = [
            ("keyed", self.keyed),
            ("tasks", self.tasks),
            ("creates", options.creates),
            ("max_creating", options.max_creating.0.is_some()),
            ("fail", options.when_exhausted == WhenExhausted::Fail),
            ("grow", options.when_exhausted == WhenExhausted::Grow),
            ("unfair", !options.fair),
            ("oldest first", options.fifo),
            ("max_active", bounds.active.is_some()),
            ("max_total", bounds.total.is_some()),
            ("max_total_per_key", bounds.per_key.is_some()),
            ("max_idle", bounds.idle.is_some()),
            ("min_idle", bounds.min_idle > 0),
            ("test_on_create", self.test_on_create),
            ("test_on_borrow", self.test_on_borrow),
            ("test_on_return", self.test_on_return),
            ("test_while_idle", self.test_while_idle),
            ("max_idle_time", self.max_idle_time.is_some()),
            ("soft_max_idle_time", self.soft_max_idle_time.is_some()),
            ("max_lifetime", self.max_lifetime.is_some()),
            ("destroy panics", self.destroy_panics),
        ];
        all.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).collect()
    }
    /// Returns whether the keys may compete for places, and whether one call may order creations for several of them. Neither
    /// may be where the specification and the pool would take the keys in different orders.
    pub(crate) fn may_compete(&self) -> bool {
        !self.keyed || !self.options.creates || self.options.fair
    }
    /// Corrects the options that the builder would refuse.
    fn valid(mut self) -> World {
        if !self.keyed {
            self.bounds.per_key = None;
        } else {
            // The specification leaves the order in which keys are refilled to the real pool.
            self.bounds.min_idle = 0;
        }
        self.options.creates &= self.tasks;
        if self.options.creates {
            // A creation is overdue by a clock that is not the test's.
            self.test_while_idle = false;
            (self.max_idle_time, self.soft_max_idle_time, self.max_lifetime) = (None, None, None);
            // Between keys, waiters that lost a race stand in line by the first of them. That shows only where the keys
            // compete for places.
            let compete = self.bounds.total.is_some() || self.options.max_creating.0.is_some();
            self.options.fair |= self.keyed && compete;
        } else {
            self.options.max_creating = state::Limit::NONE;
        }
        self.soft_max_idle_time =
            self.soft_max_idle_time.zip(self.max_idle_time.or(Some(9))).map(|(a, b)| a.min(b - 1));
        // Without waiters, fairness has no meaning.
        self.options.fair |= self.options.when_exhausted == WhenExhausted::Fail;
        // The builder refuses limits that can never be reached.
        let Bounds { total, per_key, .. } = self.bounds;
        if let Some(lowest) = total.into_iter().chain(per_key).min() {
            self.bounds.active = self.bounds.active.map(|number| number.min(lowest));
            let idle = &mut self.bounds.idle;
            *idle = idle.map(|number| number.map(|number| number.min(lowest)));
        }
        while !self.bounds.are_valid() {
            match (self.bounds.per_key > Some(1), self.bounds.min_idle > 0) {
                (true, _) => self.bounds.per_key = Some(1),
                (_, true) => self.bounds.min_idle -= 1,
                _ => unreachable!("no contradiction is left: {:?}", self.bounds),
            }
        }
        self
    }
}

impl Bounds {
    pub(crate) fn max_idle(&self) -> Number {
        self.idle.unwrap_or(self.active)
    }
    /// Returns whether the builder accepts these limits.
    pub(crate) fn are_valid(&self) -> bool {
        let within = |number: usize, limit: Number| limit.is_none_or(|limit| number <= limit);
        let nothing = [self.active, self.total, self.per_key].contains(&Some(0));
        !nothing
            && within(self.min_idle, self.max_idle())
            && within(self.min_idle, self.total)
            && within(self.min_idle, self.per_key)
            && self.per_key.is_none_or(|per_key| within(per_key, self.total))
    }
    /// Returns whether a setter accepts a number that the totals might keep from being reached.
    pub(crate) fn can_reach(&self, limit: Limit) -> bool {
        let totals = [self.total, self.per_key].into_iter().flatten().min();
        match (limit, totals) {
            (Limit::Active(Some(number)) | Limit::Idle(Some(number)), Some(total)) => {
                number <= total
            }
            _ => true,
        }
    }
    pub(crate) fn with(mut self, limit: Limit) -> Bounds {
        match limit {
            Limit::Active(number) => self.active = number,
            Limit::Total(number) => self.total = number,
            Limit::PerKey(number) => self.per_key = number,
            Limit::Idle(number) => self.idle = Some(number),
            Limit::MinIdle(number) => self.min_idle = number,
        }
        self
    }
}

/// An operation; in some, the factory calls the pool.
pub(crate) fn operation() -> impl Strategy<Value = Operation> {
    let limit = prop_oneof![
        number(3).prop_map(Limit::Active),
        number(4).prop_map(Limit::Total),
        number(3).prop_map(Limit::Idle),
    ];
    let inner = prop_oneof![
        10 => (0..3usize).prop_map(|key| Inner::Borrow { key }),
        10 => (0..8usize).prop_map(|nth| Inner::Return { nth }),
        4 => limit.prop_map(Inner::Resize),
        3 => Just(Inner::Clear),
        3 => Just(Inner::ClearAll),
        1 => Just(Inner::Close),
    ];
    let within = prop::option::weighted(0.2, (0..3usize, inner));
    (outer(), within).prop_map(|(operation, within)| match within {
        Some((nth, inner)) => Operation::Within { nth, inner, operation: Box::new(operation) },
        None => operation,
    })
}

fn outer() -> impl Strategy<Value = Operation> {
    let nth = || 0..8usize;
    let key = || 0..3usize;
    let limit = prop_oneof![
        number(3).prop_map(Limit::Active),
        number(4).prop_map(Limit::Total),
        number(2).prop_map(Limit::PerKey),
        prop_oneof![number(3), Just(Some(0))].prop_map(Limit::Idle),
        (0..=2usize).prop_map(Limit::MinIdle),
    ];
    prop_oneof![
        16 => (nth(), key(), prop::bool::weighted(0.8), ends()).prop_map(
            |(client, key, waits, ends)| Operation::Borrow { client, key, waits, ends }),
        3 => (nth(), key(), ends())
            .prop_map(|(client, key, ends)| Operation::Block { client, key, ends }),
        12 => (nth(), ends()).prop_map(|(nth, ends)| Operation::Run { nth, ends }),
        12 => (nth(), ends()).prop_map(|(nth, ends)| Operation::RunOrder { nth, ends }),
        6 => (nth(), prop_oneof![3 => Just(vec![]), 1 => ends()])
            .prop_map(|(nth, ends)| Operation::Overdue { nth, ends }),
        1 => nth().prop_map(|nth| Operation::TimeOut { nth }),
        6 => nth().prop_map(|nth| Operation::Cancel { nth }),
        3 => (nth(), prop_oneof![3 => Just(vec![]), 1 => ends()])
            .prop_map(|(nth, ends)| Operation::TooLate { nth, ends }),
        10 => (nth(), ends()).prop_map(|(nth, ends)| Operation::Return { nth, ends }),
        2 => (nth(), ends()).prop_map(|(nth, ends)| Operation::PutBack { nth, ends }),
        3 => nth().prop_map(|nth| Operation::Invalidate { nth }),
        1 => nth().prop_map(|nth| Operation::Detach { nth }),
        1 => nth().prop_map(|nth| Operation::Die { nth }),
        4 => (key(), ends()).prop_map(|(key, ends)| Operation::Add { key, ends }),
        3 => (nth(), ends()).prop_map(|(nth, ends)| Operation::RunAdd { nth, ends }),
        2 => nth().prop_map(|nth| Operation::CancelAdd { nth }),
        1 => any::<bool>().prop_map(|odd| Operation::Retain { odd }),
        4 => (0..3u64, ends()).prop_map(|(seconds, ends)| Operation::Tick { seconds, ends }),
        3 => (1..4u64).prop_map(|seconds| Operation::Pass { seconds }),
        1 => Just(Operation::Clear),
        1 => Just(Operation::ClearAll),
        3 => limit.prop_map(Operation::Resize),
        1 => prop::bool::weighted(0.2).prop_map(|close| match close {
            true => Operation::Close,
            false => Operation::Clear,
        }),
    ]
}
