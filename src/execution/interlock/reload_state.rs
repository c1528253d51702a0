//! Whether an interlock has a reloader, and whether its last reload failed.
//!
//! All executors of one interlock see the same state. After a failed reload no execution begins, because the code is
//! half unloaded. The writer holds to unload, or writes before any execution begins. A reader has a share. So a reader
//! sees each write that came before its execution.

use crate::execution::error::Failure;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
pub(crate) struct ReloadState {
    has_reloader: AtomicBool,
    /// Whether there is a failure: an execution that begins reads only this.
    has_failed: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

impl ReloadState {
    /// Takes the right to reload. Returns false if another reloader has it.
    pub(crate) fn take_right(&self) -> bool {
        !self.has_reloader.swap(true, SeqCst)
    }
    pub(crate) fn give_right_back(&self) {
        self.has_reloader.store(false, SeqCst);
    }
    /// Returns the failure of the last reload, if it failed.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Failure> {
        if !self.has_failed.load(SeqCst) {
            return None;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Notes the result of a reload. The caller holds to unload, or no execution has begun.
    pub(crate) fn ended(&self, failure: Option<Failure>) {
        let has_failed = failure.is_some();
        let former = {
            let mut noted = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *noted, failure)
        };
        self.has_failed.store(has_failed, SeqCst);
        crate::kernel::user_code::drop_contained(former);
    }
}
