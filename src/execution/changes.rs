//! Whether the source has changed since it was last loaded.
//!
//! A change is kept until a reload takes it up, which is before the unload. A check may therefore report a change
//! only once (a flag that is swapped, an event that is consumed). The next execution finds a change that comes during
//! a reload.
//!
//! This needs no lock. Executions check and note changes while they run, so no owner unloads between the check and
//! the note. An owner that holds the interlock to unload takes the notes up.

use super::error::{BoxError, Failure, Panicked, Stage};
use super::hooks::stage;
use crate::user_code::{UserValue, contain};
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How changes are found.
pub(crate) enum Check {
    /// Only on request.
    OnRequest,
    /// By a closure.
    Ask(UserValue<Box<dyn Fn() -> bool + Send + Sync>>),
    /// By comparing versions.
    Watch(UserValue<Box<dyn Watch>>),
}

pub(crate) struct Changes {
    check: Check,
    /// Whether there is a change that no reload has taken up.
    pending: AtomicBool,
    /// How often a reload has taken changes up.
    taken_up: AtomicUsize,
}

impl Changes {
    /// `pending`: a change was noted before.
    pub(crate) fn new(check: Check, pending: bool) -> Self {
        Changes { check, pending: AtomicBool::new(pending), taken_up: AtomicUsize::new(0) }
    }
    /// Whether there is a change that no reload has taken up.
    pub(crate) fn are_pending(&self) -> bool {
        self.pending.load(SeqCst)
    }
    /// How often a reload has taken changes up.
    pub(crate) fn taken_up(&self) -> usize {
        self.taken_up.load(SeqCst)
    }
    /// Notes a change. The caller runs, as in [`look`](Self::look).
    pub(crate) fn note(&self) {
        self.pending.store(true, SeqCst);
    }
    /// Checks for a change. The caller runs, so no owner unloads between the check and the note.
    pub(crate) fn look(&self) -> Result<bool, Failure> {
        let changed = match &self.check {
            Check::OnRequest => false,
            Check::Ask(check) => stage(Stage::Check, || Ok(check()))?,
            Check::Watch(watch) => stage(Stage::Check, || watch.has_changed())?,
        };
        if changed {
            self.note();
        }
        Ok(self.are_pending())
    }
    /// Takes up a noted change, or a reload that is owed `anyway`. Returns whether a reload is due. The caller holds
    /// the interlock to unload, and then loads the present source.
    pub(crate) fn take_up(&self, anyway: bool) -> Result<bool, Failure> {
        let pending = self.pending.swap(false, SeqCst);
        if !pending && !anyway {
            return Ok(false);
        }
        if let Check::Watch(watch) = &self.check {
            let looked = stage(Stage::Check, || {
                watch.begin_anew();
                Ok(())
            });
            looked.inspect_err(|_| self.note())?;
        }
        self.taken_up.fetch_add(1, SeqCst);
        Ok(true)
    }
}

/// Compares a version with the one that was loaded.
pub(crate) trait Watch: Send + Sync {
    fn has_changed(&self) -> Result<bool, BoxError>;
    fn begin_anew(&self);
}

pub(crate) struct Watched<V, F> {
    version: F,
    /// Cloned and replaced under its lock; compared and dropped without it.
    loaded: Mutex<Loaded<V>>,
}

/// The version before the last reload.
enum Loaded<V> {
    Version(Arc<UserValue<V>>),
    /// No version to compare with: the call panicked when the watch was set. The first check gets the panic.
    Unknown(Option<Panicked>),
}

impl<V: PartialEq + Send + Sync, F: Fn() -> V + Send + Sync> Watched<V, F> {
    pub(crate) fn new(version: F) -> Self {
        let loaded = match contain(&version) {
            Ok(version) => Loaded::Version(Arc::new(UserValue::new(version))),
            Err(message) => Loaded::Unknown(Some(Panicked::new(message))),
        };
        Watched { version, loaded: Mutex::new(loaded) }
    }
    fn loaded(&self) -> MutexGuard<'_, Loaded<V>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V: PartialEq + Send + Sync, F: Fn() -> V + Send + Sync> Watch for Watched<V, F> {
    fn has_changed(&self) -> Result<bool, BoxError> {
        let loaded = match &mut *self.loaded() {
            Loaded::Version(loaded) => loaded.clone(),
            Loaded::Unknown(panicked) => {
                return panicked.take().map_or(Ok(true), |p| Err(p.into()));
            }
        };
        Ok((self.version)() != **loaded)
    }
    fn begin_anew(&self) {
        let version = Loaded::Version(Arc::new(UserValue::new((self.version)())));
        let former = replace(&mut *self.loaded(), version);
        drop(former);
    }
}
