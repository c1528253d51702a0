//! Whether an interlock has a reloader, and whether its last reload failed.
//!
//! All executors of one interlock see the same state. After a failed reload no execution begins, because the code is
//! half unloaded. The writer holds to unload, or writes before any execution begins. A reader has a share. So a reader
//! sees each write that came before its execution.

use super::Interlock;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// The error of a reload, for each execution that is refused because of it.
pub(crate) type ReloadFailure = Arc<dyn Error + Send + Sync>;

#[derive(Default)]
pub(super) struct ReloadState {
    has_reloader: AtomicBool,
    /// Whether there is a failure: an execution that begins reads only this.
    failed: AtomicBool,
    failure: Mutex<Option<ReloadFailure>>,
}

impl Interlock {
    /// Returns the error of the last reload, if it failed.
    #[inline]
    pub(crate) fn reload_failure(&self) -> Option<ReloadFailure> {
        let reload = &self.0.reload;
        if !reload.failed.load(SeqCst) {
            return None;
        }
        reload.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Notes the result of a reload. The caller holds to unload, or no execution has begun.
    pub(crate) fn set_reload_failure(&self, failure: Option<ReloadFailure>) {
        let reload = &self.0.reload;
        let failed = failure.is_some();
        let former = {
            let mut noted = reload.failure.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *noted, failure)
        };
        reload.failed.store(failed, SeqCst);
        crate::user_code::drop_contained(former);
    }
}

/// The right to reload. A second reloader would take the first one's failures for its own.
pub(crate) struct Reloads(Interlock);

impl Reloads {
    /// Takes the right, which the drop gives back. Returns `None` if another reloader has it.
    pub(crate) fn take(interlock: &Interlock) -> Option<Self> {
        let has_reloader = interlock.0.reload.has_reloader.swap(true, SeqCst);
        (!has_reloader).then(|| Reloads(interlock.clone()))
    }
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.0.0.reload.has_reloader.store(false, SeqCst);
    }
}
