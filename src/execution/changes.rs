//! Whether something has changed since it was last loaded.
//!
//! An answer is kept until a reload takes it up, and it is taken up before anything is unloaded. So
//! a question that can be asked only once (a flag that is swapped, an event that is consumed) is
//! enough, and what changes while a reload is under way is found by the next execution.
//!
//! Nothing here needs a lock to be right. Executions ask and note while they run, so nobody unloads
//! between the question and the note; notes are taken up by who holds the interlock to unload.

use super::error::{BoxError, Failure, Panicked, Stage};
use super::hooks::stage;
use crate::user_code::{UserValue, contain};
use std::mem::replace;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How it is found out.
pub(crate) enum Check {
    /// Whenever a reload was asked for.
    OnRequest,
    /// By asking.
    Ask(UserValue<Box<dyn Fn() -> bool + Send + Sync>>),
    /// By comparing.
    Watch(UserValue<Box<dyn Watch>>),
}

pub(crate) struct Changes {
    check: Check,
    /// There was a change, and no reload has taken it up.
    pending: AtomicBool,
    /// How often one has taken it up.
    taken_up: AtomicUsize,
}

impl Changes {
    /// `pending`: something has changed before.
    pub(crate) fn new(check: Check, pending: bool) -> Self {
        Changes { check, pending: AtomicBool::new(pending), taken_up: AtomicUsize::new(0) }
    }
    /// Whether there was a change that no reload has taken up.
    pub(crate) fn are_pending(&self) -> bool {
        self.pending.load(SeqCst)
    }
    /// How often a reload has taken changes up.
    pub(crate) fn taken_up(&self) -> usize {
        self.taken_up.load(SeqCst)
    }
    /// As if something had changed. The caller runs, as in [`look`](Self::look).
    pub(crate) fn note(&self) {
        self.pending.store(true, SeqCst);
    }
    /// Asks. The caller runs, so nobody unloads between the question and the note.
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
    /// Takes up what was noted, if anything was, or if a reload is owed `anyway`. The caller holds
    /// the interlock to unload, and will load what is there now.
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

/// What is compared with what it was.
pub(crate) trait Watch: Send + Sync {
    fn has_changed(&self) -> Result<bool, BoxError>;
    fn begin_anew(&self);
}

pub(crate) struct Watched<V, F> {
    version: F,
    /// Cloned and replaced under its lock; compared and dropped without.
    loaded: Mutex<Loaded<V>>,
}

/// The version that there was before the last reload.
enum Loaded<V> {
    Version(Arc<UserValue<V>>),
    /// There is nothing to compare with: it panicked when it was given, as whoever looks first is told.
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
