//! Whether the source has changed since it was last loaded.
//!
//! A reported change stays pending until a reload accepts it, right before its unload. So a check may report a
//! change only once. The next execution finds an edit that is made during a reload.
//!
//! The flag needs no lock. An execution checks and sets it while it has its share, so no unload comes between. Only the
//! owner that holds the interlock to unload clears it.

use super::error::Failure;
use super::error::Stage::Check as Checking;
use super::hooks::stage;
use crate::kernel::user_code::{UserValue, contain};
use std::mem::replace;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// How changes are found.
pub(crate) enum Check {
    Never,
    /// By a closure.
    Ask(UserValue<Box<dyn Fn() -> bool + Send + Sync>>),
    /// By comparing with what was loaded.
    Watch(UserValue<Box<dyn Watch>>),
}

pub(crate) struct Changes {
    check: Check,
    /// Whether there is a change that no reload has taken up.
    pending: AtomicBool,
    /// A reload has failed, and the closure has returned true ever since: it may still mean the change that failed.
    stale: AtomicBool,
}

impl Changes {
    pub(crate) fn new(check: Check) -> Self {
        Changes { check, pending: AtomicBool::new(false), stale: AtomicBool::new(false) }
    }
    pub(crate) fn are_pending(&self) -> bool {
        self.pending.load(SeqCst)
    }
    /// Marks a change as pending, so that the next execution reloads.
    pub(crate) fn note(&self) {
        self.pending.store(true, SeqCst);
    }
    /// Checks for changes, and marks a new one as pending.
    pub(crate) fn look(&self) -> Result<(), Failure> {
        let changed = match &self.check {
            Check::Never => false,
            Check::Ask(check) => {
                let says = stage(Checking, || Ok(check()))?;
                if !says {
                    self.stale.store(false, SeqCst);
                }
                says && !self.stale.load(SeqCst)
            }
            Check::Watch(watch) => stage(Checking, || Ok(watch.has_changed()))?,
        };
        if changed {
            self.note();
        }
        Ok(())
    }
    /// Accepts the pending change. The caller holds the interlock to unload, and then loads the current source.
    ///
    /// The watch stores the current version, so a later edit is another change.
    pub(crate) fn take_up(&self) -> Result<(), Failure> {
        if let Check::Watch(watch) = &self.check {
            stage(Checking, || {
                watch.take_up();
                Ok(())
            })?;
        }
        self.pending.store(false, SeqCst);
        Ok(())
    }
    /// Notes how the reload that accepted the change has ended.
    pub(crate) fn ended(&self, successfully: bool) {
        self.stale.store(!successfully, SeqCst);
    }
}

/// Compares the current source with the loaded one.
pub(crate) trait Watch: Send + Sync {
    fn has_changed(&self) -> bool;
    /// Stores the current version: the caller loads it next.
    fn take_up(&self);
}

/// Watches a version that a closure returns.
pub(crate) struct Watched<V, F> {
    version: F,
    /// The version before the last reload. Absent if the closure panicked when the watch was set.
    ///
    /// Cloned and replaced under its lock; compared and dropped without it.
    loaded: Mutex<Option<Arc<UserValue<V>>>>,
}

impl<V: PartialEq + Send + Sync, F: Fn() -> V + Send + Sync> Watched<V, F> {
    pub(crate) fn new(version: F) -> Self {
        let loaded = contain(&version).ok().map(|version| Arc::new(UserValue::new(version)));
        Watched { version, loaded: Mutex::new(loaded) }
    }
}

impl<V: PartialEq + Send + Sync, F: Fn() -> V + Send + Sync> Watch for Watched<V, F> {
    fn has_changed(&self) -> bool {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        loaded.is_none_or(|loaded| (self.version)() != **loaded)
    }
    fn take_up(&self) {
        let version = Some(Arc::new(UserValue::new((self.version)())));
        let former =
            replace(&mut *self.loaded.lock().unwrap_or_else(PoisonError::into_inner), version);
        drop(former);
    }
}
