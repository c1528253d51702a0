//! What is said of the world that an interlock guards: whether the last reload of it has succeeded.
//!
//! It is the interlock's, not an executor's: all executors of one interlock run on one world.
//! It is written by who holds to unload, or before anybody could, and read by those that run: the interlock
//! puts that in order.

use super::Interlock;
use super::ambient;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(crate) struct World {
    /// A reload has begun, and has not succeeded.
    half_reloaded: AtomicBool,
    /// It has one reloader at a time: a second would take the first one's failures for its own.
    has_reloader: AtomicBool,
    /// The last reloader is gone, and something had changed that it has not reloaded.
    left_changed: AtomicBool,
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

/// The right to reload what an interlock guards, given back when it is dropped.
pub(crate) struct Reloads(Interlock);

impl Reloads {
    /// None if somebody has it.
    pub(crate) fn take(interlock: &Interlock) -> Option<Self> {
        let has_reloader = interlock.world().has_reloader.swap(true, SeqCst);
        (!has_reloader).then(|| Reloads(interlock.clone()))
    }
    /// Whether who had it before has left something to be reloaded.
    pub(crate) fn take_change(&self) -> bool {
        self.0.world().left_changed.swap(false, SeqCst)
    }
    pub(crate) fn leave_change(&self) {
        self.0.world().left_changed.store(true, SeqCst);
    }
}

impl Drop for Reloads {
    fn drop(&mut self) {
        self.0.world().has_reloader.store(false, SeqCst);
    }
}

impl Interlock {
    pub(crate) fn world(&self) -> &World {
        &self.0.world
    }
    /// Whether nobody may run here: the last reload has failed. What reloads runs all the same.
    pub(crate) fn is_half_reloaded_here(&self) -> bool {
        self.world().is_half_reloaded() && !ambient::reloads(&self.0)
    }
}
