//! All application processes that live, pool or no pool: so that an agent that must end at once can
//! take them with it, and one that ends in good order knows when the last is gone.

use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashSet;
use std::sync::Mutex;
use tokio::sync::Notify;

/// The process groups that have been started and not reaped.
#[derive(Debug, Default)]
pub(crate) struct Children {
    groups: Mutex<HashSet<u32>>,
    changed: Notify,
}

impl Children {
    fn groups(&self) -> std::sync::MutexGuard<'_, HashSet<u32>> {
        // Nothing that panics runs under this lock.
        self.groups.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn add(&self, pid: u32) {
        self.groups().insert(pid);
    }
    /// Call before the leader is reaped: until then nobody else can get its number.
    pub(crate) fn remove(&self, pid: u32) {
        self.groups().remove(&pid);
        self.changed.notify_waiters();
    }
    /// Ends every one of them without asking.
    pub(crate) fn kill_all(&self) {
        for &pid in self.groups().iter() {
            kill_group(pid, Signal::KILL);
        }
    }
    /// Returns when none is left.
    pub(crate) async fn all_gone(&self) {
        loop {
            let changed = self.changed.notified();
            if self.groups().is_empty() {
                return;
            }
            changed.await;
        }
    }
}

/// Signals a whole process group; that it is gone already is no error.
pub(crate) fn kill_group(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, signal);
    }
}
