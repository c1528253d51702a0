//! The calls that change a limit of a pool.

use super::build_error::BuildError;
use super::factory::Form;
use super::pool::Pool;
use crate::kernel::section::Guarded;
use crate::resource_pool::state::options::{Limits, number};

impl<F: Form, K> Pool<F, K> {
    pub(crate) fn resize(
        &self,
        change: impl FnOnce(&mut Limits) -> Result<(), BuildError>,
    ) -> Result<(), BuildError> {
        self.inner().critical(|state, fx| {
            let mut limits = state.limits;
            change(&mut limits)?;
            limits.follow();
            limits.check()?;
            state.limits = limits;
            state.resized = true;
            state.fit(fx);
            Ok(())
        })
    }
    /// Changes `max_active`.
    ///
    /// If more resources are lent than a lower limit allows, the pool lends fewer as they are returned. A higher limit
    /// serves waiters at once.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// pool.set_max_active(16)?;
    /// pool.set_max_active(None)?; // no limit
    /// assert!(pool.set_max_active(0).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_active(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| {
            (limits.max_active, limits.max_active_is_set) = (limit, true);
            limits.check_reachable("max_active", limit)
        })
    }
    /// Changes `max_total`.
    ///
    /// The pool destroys idle resources beyond a lower limit now, and borrowed ones when they are returned. A
    /// `max_active` or `max_idle` above a lower limit stays as it is, and holds again when the limit is raised.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_total(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| {
            limits.max_total = limit;
            Ok(())
        })
    }
    /// Changes `max_idle`. From now on the limit no longer follows `max_active`, as it does by default.
    ///
    /// The pool destroys idle resources beyond a lower limit, the longest idle ones first.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does.
    pub fn set_max_idle(&self, limit: impl Into<Option<usize>>) -> Result<(), BuildError> {
        let limit = number(limit.into());
        self.resize(|limits| {
            limits.max_idle = Some(limit);
            limits.check_reachable("max_idle", limit)
        })
    }
    /// Changes `min_idle`.
    ///
    /// # Errors
    /// Returns a [`BuildError`] as the builder does: also in a pool that
    /// [`build_async`](crate::resource_pool::Builder::build_async) built without `maintenance(false)`, which would never be refilled.
    pub fn set_min_idle(&self, number: usize) -> Result<(), BuildError> {
        if number > 0 && self.inner().options.is_unmaintained {
            return Err(BuildError::needs_maintenance("min_idle"));
        }
        self.resize(|limits| {
            limits.min_idle = number;
            Ok(())
        })
    }
}
