//! Which options exclude each other, and the error that says so.

use crate::periodic_executor::OpenError;
use crate::resource_pool::state::options::{Limits, Options, WhenExhausted};
use std::fmt;
use std::time::Duration;

/// Why a pool cannot be built, or a limit cannot be changed.
///
/// ```
#[doc = include_str!("example.txt")]
/// use cabrank::resource_pool::BuildError;
///
/// let pool = ResourcePool::builder(Connections, "db.example").min_idle(4).max_idle(2).build();
/// assert!(matches!(pool, Err(BuildError::Above { option: ("min_idle", 4), limit: ("max_idle", 2) })));
/// ```
#[derive(Clone, Debug, PartialEq)]
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
    pub(crate) fn needs_maintenance(option: &'static str) -> Self {
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

impl Limits {
    /// Refuses what [`check`](Self::check) does, and limits that a lower total keeps from being reached.
    pub(crate) fn check_build(&self) -> Result<(), BuildError> {
        self.check()?;
        if self.max_active_is_set {
            self.check_reachable("max_active", self.max_active)?;
        }
        self.max_idle.map_or(Ok(()), |number| self.check_reachable("max_idle", number))
    }

    /// Refuses a number of resources that a lower total keeps from being reached.
    pub(crate) fn check_reachable(
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

    pub(crate) fn check(&self) -> Result<(), BuildError> {
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

impl Options {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let times = [
            ("max_idle_time", self.max_idle_time),
            ("soft_max_idle_time", self.soft_max_idle_time),
            ("max_lifetime", self.max_lifetime),
            ("eviction_interval", self.eviction_interval),
            ("abandoned_after", self.abandoned_after),
        ];
        let overdue = [("overdue_after", self.overdue_after)];
        for (name, duration) in times.into_iter().chain(self.time_limits()).chain(overdue) {
            if duration.is_some_and(|duration| duration.is_zero()) {
                return Err(BuildError::Zero(name));
            }
        }
        if self.evictions_per_run == Some(0) {
            return Err(BuildError::Zero("evictions_per_run"));
        }
        if self.max_creating == 0 {
            return Err(BuildError::Zero("max_creating"));
        }
        if let (Some(overdue), Some(limit)) = (self.overdue_after, self.create_timeout) {
            if overdue > (limit / 2).max(Duration::from_nanos(1)) {
                let (option, with) = ("overdue_after", "create_timeout");
                let why = "it may be half of that at most, so that another creation has time";
                return Err(BuildError::NotWith { option, with, why });
            }
        }
        let needs = |option, needs, why| BuildError::Needs { option, needs, why };
        let not_with = |option, with, why| BuildError::NotWith { option, with, why };
        if self.when_exhausted == WhenExhausted::Fail && !self.fair {
            return Err(not_with("fair(false)", "when_exhausted(Fail)", "no borrower waits"));
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
    fn time_limits(&self) -> [(&'static str, Option<Duration>); 5] {
        [
            ("create_timeout", self.create_timeout),
            ("validate_timeout", self.validate_timeout),
            ("activate_timeout", self.activate_timeout),
            ("passivate_timeout", self.passivate_timeout),
            ("destroy_timeout", self.destroy_timeout),
        ]
    }

    /// Refuses options that need a runtime.
    pub(crate) fn check_without_runtime(&self, with: &'static str) -> Result<(), BuildError> {
        let why = "it needs a runtime; `build_on` takes one";
        let limits = self.time_limits().into_iter().find(|(_, limit)| limit.is_some());
        let limits = limits.map(|(option, _)| option);
        let overdue = self.overdue_after.map(|_| "overdue_after");
        let creating = (self.max_creating != usize::MAX).then_some("max_creating");
        match limits.or(overdue).or(creating) {
            Some(option) => Err(BuildError::NotWith { option, with, why }),
            None => Ok(()),
        }
    }

    /// Refuses options that need a timer.
    pub(crate) fn check_without_timer(&self, with: &'static str) -> Result<(), BuildError> {
        let option = "max_wait";
        let why = "it has no timer: drop the future, or use a timeout of the runtime";
        match self.max_wait {
            Some(_) => Err(BuildError::NotWith { option, with, why }),
            None => Ok(()),
        }
    }
}
