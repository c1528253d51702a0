//! The options of a pool. `build_error.rs` says which of them exclude each other.

use std::time::Duration;

/// Returns the compact form of a limit: `usize::MAX` is no limit.
pub(super) fn number(limit: Option<usize>) -> usize {
    limit.unwrap_or(usize::MAX)
}

/// The time that a creation has, in a pool with a runtime and without a `create_timeout`.
pub(super) const CREATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Which idle resource is lent first.
///
/// ```
#[doc = include_str!("example.txt")]
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
#[doc = include_str!("example.txt")]
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
    /// It fails with [`BorrowError::Exhausted`](super::BorrowError::Exhausted).
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
    pub(super) max_active: usize,
    pub(super) max_active_is_set: bool,
    pub(super) max_total: usize,
    pub(super) max_total_per_key: usize,
    /// `None`: follows `max_active`.
    pub(super) max_idle: Option<usize>,
    pub(super) min_idle: usize,
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
    pub(super) fn max_idle(&self) -> usize {
        self.max_idle.unwrap_or(self.max_active)
    }

    /// Lets an unset `max_active` follow the totals.
    pub(super) fn follow(&mut self) {
        if !self.max_active_is_set {
            let total = self.max_total.min(self.max_total_per_key);
            self.max_active = if total == usize::MAX { 8 } else { total };
        }
    }
}

/// The options that are fixed when the pool is built.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(super) when_exhausted: WhenExhausted,
    pub(super) max_wait: Option<Duration>,
    pub(super) test_on_create: bool,
    pub(super) test_on_borrow: bool,
    pub(super) test_on_return: bool,
    pub(super) test_while_idle: bool,
    pub(super) lend_order: LendOrder,
    pub(super) fair: bool,
    /// In a pool that is not fair: how many races a waiter may lose to newcomers.
    pub(super) max_lost_races: u32,
    pub(super) max_idle_time: Option<Duration>,
    pub(super) soft_max_idle_time: Option<Duration>,
    pub(super) max_lifetime: Option<Duration>,
    pub(super) lifetime_jitter: Option<Duration>,
    pub(super) eviction_interval: Option<Duration>,
    pub(super) evictions_per_run: Option<usize>,
    pub(super) abandoned_after: Option<Duration>,
    pub(super) remove_abandoned: bool,
    pub(super) create_timeout: Option<Duration>,
    /// If it was not set, a pool with a runtime has the default.
    pub(super) create_timeout_is_set: bool,
    pub(super) validate_timeout: Option<Duration>,
    pub(super) activate_timeout: Option<Duration>,
    pub(super) passivate_timeout: Option<Duration>,
    /// The pool has no maintenance, and no caller promised to do it.
    pub(super) is_unmaintained: bool,
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
            validate_timeout: None,
            activate_timeout: None,
            passivate_timeout: None,
            is_unmaintained: false,
        }
    }
}

impl Options {
    /// Returns whether an option needs the pool to keep times.
    pub(super) fn keep_times(&self) -> bool {
        self.max_idle_time.is_some()
            || self.soft_max_idle_time.is_some()
            || self.max_lifetime.is_some()
            || self.abandoned_after.is_some()
    }

    /// Gives an unset `create_timeout` its default.
    pub(super) fn with_runtime(&mut self) {
        if !self.create_timeout_is_set {
            self.create_timeout = Some(CREATE_TIMEOUT);
        }
    }
}
