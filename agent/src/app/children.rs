//! All living application processes, in the pool or not.
//!
//! An agent that must end at once kills them. An agent that shuts down gracefully waits for the last.

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
        // Code under this lock does not panic, so a poisoned lock still guards a valid set.
        self.groups.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
    pub(crate) fn add(&self, pid: u32) {
        self.groups().insert(pid);
    }
    /// Removes a process group. Call it before the leader is reaped: until then the system keeps its pid.
    pub(crate) fn remove(&self, pid: u32) {
        self.groups().remove(&pid);
        self.changed.notify_waiters();
    }
    /// Kills all process groups.
    pub(crate) fn kill_all(&self) {
        for &pid in self.groups().iter() {
            kill_group(pid, Signal::KILL);
        }
    }
    /// Waits until every process group is removed.
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

/// Sends a signal to a process group. Ignores a group that is gone.
pub(crate) fn kill_group(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, signal);
    }
}
