//! The state of the world that an interlock guards: whether its last reload has succeeded.
//!
//! All executors of one interlock share one world. Its writer holds to unload, or writes before any execution
//! can begin; executions read it. So the interlock orders these accesses.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(crate) struct World {
    /// A reload has begun and has not succeeded.
    half_reloaded: AtomicBool,
    /// One reloader at a time: a second would take the first one's failures for its own.
    pub(super) has_reloader: AtomicBool,
    /// The last reloader was dropped before it reloaded a change.
    pub(super) left_changed: AtomicBool,
}

impl World {
    pub(crate) fn is_half_reloaded(&self) -> bool {
        self.half_reloaded.load(SeqCst)
    }
    /// Refuses executions from now on, until `end_reload`.
    pub(crate) fn begin_reload(&self) {
        self.half_reloaded.store(true, SeqCst);
    }
    pub(crate) fn end_reload(&self) {
        self.half_reloaded.store(false, SeqCst);
    }
}
