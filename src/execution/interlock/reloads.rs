//! The right to reload what an interlock guards.

use super::Interlock;
use super::ambient;
use super::world::World;
use std::sync::atomic::Ordering::SeqCst;

/// The right itself, given back by its drop.
pub(crate) struct Reloads(Interlock);

impl Reloads {
    /// Takes the right. Returns `None` if another reloader has it.
    pub(crate) fn take(interlock: &Interlock) -> Option<Self> {
        let has_reloader = interlock.world().has_reloader.swap(true, SeqCst);
        (!has_reloader).then(|| Reloads(interlock.clone()))
    }
    /// Returns true, once, if the previous reloader left a change.
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
    /// Returns true if the last reload failed, so that only a reload may run here.
    pub(crate) fn is_half_reloaded_here(&self) -> bool {
        self.world().is_half_reloaded() && !ambient::reloads(&self.0)
    }
}
