//! What is said of the world that an interlock guards: whether the last reload of it has succeeded.
//!
//! It is the interlock's, not an executor's: all executors of one interlock run on one world.
//! It is written by who holds to unload, or before anybody could, and read by those that run: the interlock
//! puts that in order.

use super::Interlock;
use super::ambient::{self, Kind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

#[derive(Debug, Default)]
pub(crate) struct World {
    /// A reload has begun, and has not succeeded.
    half_reloaded: AtomicBool,
    /// It has one reloader: a second would take the first one's failures for its own.
    has_reloader: AtomicBool,
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
    /// False if there is one already.
    pub(crate) fn take_reloader(&self) -> bool {
        !self.has_reloader.swap(true, SeqCst)
    }
}

impl Interlock {
    pub(crate) fn world(&self) -> &World {
        &self.0.world
    }
    /// Whether nobody may run here: the last reload has failed. What reloads runs all the same.
    pub(crate) fn is_half_reloaded_here(&self) -> bool {
        let alone = || ambient::innermost(&self.0).is_some_and(|f| f.kind == Kind::Exclusive);
        self.world().is_half_reloaded() && !alone()
    }
}
