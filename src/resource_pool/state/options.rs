//! The options of a pool. `build_error.rs` says which of them exclude each other.

use std::time::Duration;

/// Returns the compact form of a limit: `usize::MAX` is no limit.
pub(crate) fn number(limit: Option<usize>) -> usize {
    limit.unwrap_or(usize::MAX)
}

/// The time that a borrow has, in a pool with a timer and without a `max_wait`.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The time that a creation has, in a pool with a runtime and without a `create_timeout`.
pub(crate) const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// The time that a destruction has, in a pool with a runtime and without a `destroy_timeout`.
const DESTROY_TIMEOUT: Duration = Duration::from_secs(5);

/// The time after which a creation is overdue, in a pool with a runtime and without an `overdue_after`.
const OVERDUE_AFTER: Duration = Duration::from_secs(1);

/// Which idle resource is lent first.
///
/// ```
#[doc = include_str!("../api/example.txt")]
/// use cabrank::resource_pool::LendOrder;
///
/// let builder = ResourcePool::builder(Connections, "db.example");
/// let pool = builder.lend_order(LendOrder::OldestFirst).build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LendOrder {
    /// The resource that was returned last. So resources beyond the present need stay idle, and expire.
    #[default]
    NewestFirst,
    /// The resource that has been idle for longest. So all resources are used equally.
    OldestFirst,
}

/// How a borrow behaves if it cannot be served at once.
///
/// ```
#[doc = include_str!("../api/example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// use cabrank::resource_pool::{BorrowError, WhenExhausted};
///
/// let builder = ResourcePool::builder(Connections, "db.example").max_active(1);
/// let pool = builder.when_exhausted(WhenExhausted::Fail).build()?;
/// let only = pool.borrow()?;
/// assert!(matches!(pool.borrow(), Err(BorrowError::Exhausted)));
/// # drop(only);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenExhausted {
    /// It fails with [`BorrowError::Exhausted`](crate::resource_pool::BorrowError::Exhausted).
    Fail,
    /// It waits for its turn, at most for `max_wait`.
    #[default]
    Block,
    /// It may exceed `max_active` with a new resource. It waits only if another limit is reached.
    Grow,
}

/// The limits that can change at any time; `usize::MAX` means unlimited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// If it was not set: as many as the totals allow, or 8 without a total.
    pub(crate) max_active: usize,
    pub(crate) max_active_is_set: bool,
    pub(crate) max_total: usize,
    pub(crate) max_total_per_key: usize,
    /// `None`: follows `max_active`.
    pub(crate) max_idle: Option<usize>,
    pub(crate) min_idle: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_active: 8,
            max_active_is_set: false,
            max_total: usize::MAX,
            max_total_per_key: usize::MAX,
            max_idle: None,
            min_idle: 0,
        }
    }
}

impl Limits {
    #[inline]
    pub(crate) fn max_idle(&self) -> usize {
        self.max_idle.unwrap_or(self.max_active)
    }

    /// Lets an unset `max_active` follow the totals.
    pub(crate) fn follow(&mut self) {
        if !self.max_active_is_set {
            let total = self.max_total.min(self.max_total_per_key);
            self.max_active = if total == usize::MAX { 8 } else { total };
        }
    }
}

/// The options that are fixed when the pool is built.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) when_exhausted: WhenExhausted,
    pub(crate) max_wait: Option<Duration>,
    /// If it was not set, a pool with a timer has the default.
    pub(crate) max_wait_is_set: bool,
    pub(crate) test_on_create: bool,
    pub(crate) test_on_borrow: bool,
    pub(crate) test_on_return: bool,
    pub(crate) test_while_idle: bool,
    pub(crate) lend_order: LendOrder,
    pub(crate) fair: bool,
    /// In a pool that is not fair: how many races a waiter may lose to newcomers.
    pub(crate) max_lost_races: u32,
    pub(crate) max_idle_time: Option<Duration>,
    pub(crate) soft_max_idle_time: Option<Duration>,
    pub(crate) max_lifetime: Option<Duration>,
    pub(crate) lifetime_jitter: Option<Duration>,
    pub(crate) eviction_interval: Option<Duration>,
    pub(crate) evictions_per_run: Option<usize>,
    pub(crate) abandoned_after: Option<Duration>,
    pub(crate) remove_abandoned: bool,
    pub(crate) create_timeout: Option<Duration>,
    /// If it was not set, a pool with a runtime has the default.
    pub(crate) create_timeout_is_set: bool,
    pub(crate) overdue_after: Option<Duration>,
    pub(crate) max_creating: usize,
    pub(crate) validate_timeout: Option<Duration>,
    pub(crate) activate_timeout: Option<Duration>,
    pub(crate) passivate_timeout: Option<Duration>,
    pub(crate) destroy_timeout: Option<Duration>,
    /// The pool has no maintenance, and no caller promised to do it.
    pub(crate) is_unmaintained: bool,
}

/// How many races a waiter may lose in a pool that is not fair: a newcomer overtakes it, or it retries too late.
///
/// `benches/` has the reason in its column with a hold: eight threads, two resources, 2 µs a loan. With 8 races a loan
/// takes 2.4 µs and the slowest waits 4 ms, with 256 races 1.5 µs and 5 ms, with 1,024 races 1.35 µs and 10 ms. Without
/// a bound it takes 1.33 µs, and the slowest waits 23 ms.
const RACES: u32 = 1024;

impl Default for Options {
    fn default() -> Self {
        Options {
            when_exhausted: WhenExhausted::Block,
            max_wait: None,
            max_wait_is_set: false,
            test_on_create: false,
            test_on_borrow: false,
            test_on_return: false,
            test_while_idle: false,
            lend_order: LendOrder::default(),
            fair: true,
            max_lost_races: RACES,
            max_idle_time: None,
            soft_max_idle_time: None,
            max_lifetime: None,
            lifetime_jitter: None,
            eviction_interval: None,
            evictions_per_run: None,
            abandoned_after: None,
            remove_abandoned: false,
            create_timeout: None,
            create_timeout_is_set: false,
            overdue_after: None,
            max_creating: usize::MAX,
            validate_timeout: None,
            activate_timeout: None,
            passivate_timeout: None,
            destroy_timeout: None,
            is_unmaintained: false,
        }
    }
}

impl Options {
    /// Returns whether an option needs the pool to keep times.
    pub(crate) fn keep_times(&self) -> bool {
        self.max_idle_time.is_some()
            || self.soft_max_idle_time.is_some()
            || self.max_lifetime.is_some()
            || self.abandoned_after.is_some()
    }

    /// Gives an unset `max_wait` its default, in a pool that has a timer.
    pub(crate) fn with_timer(&mut self) {
        if !self.max_wait_is_set {
            self.max_wait = Some(MAX_WAIT);
        }
    }

    /// Gives an unset `create_timeout`, `overdue_after` and `destroy_timeout` their defaults.
    pub(crate) fn with_runtime(&mut self) {
        self.with_timer();
        self.destroy_timeout.get_or_insert(DESTROY_TIMEOUT);
        if !self.create_timeout_is_set {
            self.create_timeout = Some(CREATE_TIMEOUT);
        }
        let least = Duration::from_nanos(1);
        let most = self.create_timeout.map_or(OVERDUE_AFTER, |limit| (limit / 2).max(least));
        self.overdue_after.get_or_insert(OVERDUE_AFTER.min(most));
    }
}
