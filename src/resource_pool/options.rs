//! The options of a pool, and which of them exclude each other.

use crate::periodic_executor::OpenError;
use std::fmt;
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

    /// Refuses what [`check`](Self::check) does, and limits that a lower total keeps from being reached.
    pub(super) fn check_build(&self) -> Result<(), BuildError> {
        self.check()?;
        if self.max_active_is_set {
            self.check_reachable("max_active", self.max_active)?;
        }
        self.max_idle.map_or(Ok(()), |number| self.check_reachable("max_idle", number))
    }

    /// Refuses a number of resources that a lower total keeps from being reached.
    pub(super) fn check_reachable(
        &self,
        name: &'static str,
        number: usize,
    ) -> Result<(), BuildError> {
        let totals = [("max_total", self.max_total), ("max_total_per_key", self.max_total_per_key)];
        let exceeded = totals.into_iter().find(|(_, limit)| number > *limit);
        match exceeded.filter(|_| number != usize::MAX) {
            Some((total, limit)) => Err(BuildError::above(name, number, total, limit)),
            None => Ok(()),
        }
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        let nonzero = [
            ("max_total", self.max_total),
            ("max_total_per_key", self.max_total_per_key),
            ("max_active", self.max_active),
        ];
        for (name, number) in nonzero {
            if number == 0 {
                return Err(BuildError::Zero(name));
            }
        }
        // An unset `max_idle` follows `max_active`: the error names the option that was set.
        let (max_idle, limit) = match self.max_idle {
            Some(limit) => ("max_idle", limit),
            // Else it follows the totals, which are checked below.
            None if self.max_active_is_set
                || self.max_total.min(self.max_total_per_key) == usize::MAX =>
            {
                ("max_active", self.max_active)
            }
            None => ("max_active", usize::MAX),
        };
        let pairs = [
            ("min_idle", self.min_idle, max_idle, limit),
            ("min_idle", self.min_idle, "max_total", self.max_total),
            ("min_idle", self.min_idle, "max_total_per_key", self.max_total_per_key),
        ];
        for (less, a, more, b) in pairs {
            if a > b {
                return Err(BuildError::above(less, a, more, b));
            }
        }
        if self.max_total_per_key != usize::MAX && self.max_total_per_key > self.max_total {
            let (a, b) = (self.max_total_per_key, self.max_total);
            return Err(BuildError::above("max_total_per_key", a, "max_total", b));
        }
        Ok(())
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

    pub(super) fn check(&self) -> Result<(), BuildError> {
        let times = [
            ("max_idle_time", self.max_idle_time),
            ("soft_max_idle_time", self.soft_max_idle_time),
            ("max_lifetime", self.max_lifetime),
            ("eviction_interval", self.eviction_interval),
            ("abandoned_after", self.abandoned_after),
        ];
        for (name, duration) in times.into_iter().chain(self.time_limits()) {
            if duration.is_some_and(|duration| duration.is_zero()) {
                return Err(BuildError::Zero(name));
            }
        }
        if self.evictions_per_run == Some(0) {
            return Err(BuildError::Zero("evictions_per_run"));
        }
        let needs = |option, needs, why| BuildError::Needs { option, needs, why };
        let not_with = |option, with, why| BuildError::NotWith { option, with, why };
        if self.when_exhausted == WhenExhausted::Fail {
            let waits = [("max_wait", self.max_wait.is_some()), ("fair(false)", !self.fair)];
            if let Some((option, _)) = waits.into_iter().find(|(_, set)| *set) {
                return Err(not_with(option, "when_exhausted(Fail)", "no borrower waits"));
            }
        }
        if self.test_while_idle && self.eviction_interval.is_none() {
            return Err(needs("test_while_idle", "eviction_interval", "it sets how often"));
        }
        if self.evictions_per_run.is_some() && self.eviction_interval.is_none() {
            return Err(needs(
                "evictions_per_run",
                "eviction_interval",
                "only runs at intervals have a limit",
            ));
        }
        let looks = self.max_idle_time.or(self.soft_max_idle_time).is_some();
        if self.eviction_interval.is_some() && !looks && !self.test_while_idle {
            let these = "max_idle_time, soft_max_idle_time or test_while_idle";
            return Err(needs("eviction_interval", these, "a run has no other work"));
        }
        if self.remove_abandoned && self.abandoned_after.is_none() {
            return Err(needs(
                "remove_abandoned",
                "abandoned_after",
                "it sets the time after which a loan is removed",
            ));
        }
        if let (Some(soft), Some(hard)) = (self.soft_max_idle_time, self.max_idle_time) {
            if soft >= hard {
                let why = "the soft time must be shorter";
                return Err(not_with("soft_max_idle_time", "max_idle_time", why));
            }
        }
        match (self.lifetime_jitter, self.max_lifetime) {
            (Some(_), None) => {
                Err(needs("lifetime_jitter", "max_lifetime", "the jitter is subtracted from it"))
            }
            (Some(jitter), Some(lifetime)) if jitter >= lifetime => Err(not_with(
                "lifetime_jitter",
                "max_lifetime",
                "the jitter is subtracted from the lifetime and must be shorter",
            )),
            _ => Ok(()),
        }
    }

    /// Returns the time limits of the factory's calls, with their names.
    fn time_limits(&self) -> [(&'static str, Option<Duration>); 4] {
        [
            ("create_timeout", self.create_timeout),
            ("validate_timeout", self.validate_timeout),
            ("activate_timeout", self.activate_timeout),
            ("passivate_timeout", self.passivate_timeout),
        ]
    }

    /// Gives an unset `create_timeout` its default.
    pub(super) fn with_runtime(&mut self) {
        if !self.create_timeout_is_set {
            self.create_timeout = Some(CREATE_TIMEOUT);
        }
    }

    /// Refuses options that need a runtime.
    pub(super) fn check_without_runtime(&self, with: &'static str) -> Result<(), BuildError> {
        let why = "it needs a runtime; `build_on` takes one";
        match self.time_limits().into_iter().find(|(_, limit)| limit.is_some()) {
            Some((option, _)) => Err(BuildError::NotWith { option, with, why }),
            None => Ok(()),
        }
    }

    /// Refuses options that an asynchronous factory does not support.
    pub(super) fn check_async(&self) -> Result<(), BuildError> {
        let (option, with) = ("max_wait", "Async");
        let why = "a future has no timeout of its own: drop it, or use a timeout of the runtime";
        match self.max_wait {
            Some(_) => Err(BuildError::NotWith { option, with, why }),
            None => Ok(()),
        }
    }
}

/// Why a pool cannot be built, or a limit cannot be changed.
///
/// ```
#[doc = include_str!("example.txt")]
/// use cabrank::resource_pool::BuildError;
///
/// let pool = ResourcePool::builder(Connections, "db.example").min_idle(4).max_idle(2).build();
/// assert!(matches!(pool, Err(BuildError::Above { option: ("min_idle", 4), limit: ("max_idle", 2) })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// This option must not be zero.
    Zero(&'static str),
    /// One option exceeds another.
    Above {
        /// The option that is too large, with its value.
        option: (&'static str, usize),
        /// The option that it must not exceed, with its value.
        limit: (&'static str, usize),
    },
    /// One option has no effect without another.
    Needs {
        /// The option that is set.
        option: &'static str,
        /// The option that is missing.
        needs: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// Two options exclude each other.
    NotWith {
        /// The first option.
        option: &'static str,
        /// The second option.
        with: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The thread or task of the maintenance could not be started.
    Maintenance(OpenError),
}

impl BuildError {
    /// The option needs maintenance, which a pool of `build_async` lacks.
    pub(super) fn needs_maintenance(option: &'static str) -> Self {
        let why = "it needs a runtime; `build_on` takes one, and with `maintenance(false)` call `maintain_async`";
        BuildError::NotWith { option, with: "build_async", why }
    }
    fn above(less: &'static str, a: usize, more: &'static str, b: usize) -> Self {
        BuildError::Above { option: (less, a), limit: (more, b) }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Zero(option) => write!(f, "{option} must not be zero"),
            BuildError::Above { option: (less, a), limit: (more, b) } => {
                write!(f, "{less} ({a}) must not exceed {more} ({b})")
            }
            BuildError::Needs { option, needs, why } => {
                write!(f, "{option} needs {needs}: {why}")
            }
            BuildError::NotWith { option, with, why } => {
                write!(f, "{option} does not go with {with}: {why}")
            }
            BuildError::Maintenance(_) => f.write_str("the maintenance could not be started"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Maintenance(error) => Some(error),
            _ => None,
        }
    }
}
