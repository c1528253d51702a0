//! The rights that a load or an unload passes on: no other execution runs.

use super::inner::Inner;
use std::sync::Arc;

/// The right to load values: no other execution runs.
pub struct Loading<'a> {
    /// Absent where there is no interlock.
    pub(super) home: Option<&'a Arc<Inner>>,
}

/// The right to unload values: no other execution runs or is in a permit block.
pub struct Unloading<'a> {
    pub(super) home: &'a Arc<Inner>,
}

impl Loading<'_> {
    /// Returns the right to load where there is no interlock.
    pub(crate) fn detached() -> Loading<'static> {
        Loading { home: None }
    }
}

impl Unloading<'_> {
    /// Calls `f` to load the replacement of an unloaded value. It does not wait, because no other execution runs.
    ///
    /// ```
    /// use cabrank::execution::interlock::{AcquireError, Interlock, Loaded};
    ///
    /// let (interlock, version) = (Interlock::new(), Loaded::new());
    /// interlock.unload(|unloading| unloading.load(|loading| version.set(2, loading)))?;
    /// interlock.run(|r| assert_eq!(*version.get(r).expect("it is loaded"), 2))?;
    /// # Ok::<(), AcquireError>(())
    /// ```
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> R {
        f(&mut Loading { home: Some(self.home) })
    }
}
