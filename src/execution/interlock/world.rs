//! What is said of the world that an interlock guards: whether the last reload of it has succeeded.
//!
//! It is the interlock's, not an executor's: all executors of one interlock run on one world.
//! It is written by who holds to unload, or before anybody could, and read by those that run: the interlock
//! puts that in order.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(crate) struct World {
    /// A reload has begun, and has not succeeded.
    half_reloaded: AtomicBool,
    /// It has one reloader at a time: a second would take the first one's failures for its own.
    pub(super) has_reloader: AtomicBool,
    /// The last reloader is gone, and something had changed that it has not reloaded.
    pub(super) left_changed: AtomicBool,
}

impl World {
    pub(crate) fn is_half_reloaded(&self) -> bool {
        self.half_reloaded.load(SeqCst)
    }
    /// From here on nobody runs in it, unless it ends well.
    pub(crate) fn begin_reload(&self) {
        self.half_reloaded.store(true, SeqCst);
    }
    pub(crate) fn end_reload(&self) {
        self.half_reloaded.store(false, SeqCst);
    }
}
