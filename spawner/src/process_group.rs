//! The groups of processes: each application process leads one.

use rustix::process::{Pid, Signal, kill_process_group};

/// Sends a signal to a process group. Ignores a group that is gone.
pub fn kill_group(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(pid, signal);
    }
}
