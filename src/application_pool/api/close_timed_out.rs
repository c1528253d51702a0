//! The error of a close with a deadline.

use super::snapshot::Snapshot;
use std::error::Error;
use std::fmt;

/// A closed pool has not come to its end in time. See
/// [`ApplicationPool::close_timeout`](crate::application_pool::ApplicationPool::close_timeout).
///
/// ```
/// use cabrank::application_pool::{CloseTimedOut, Snapshot};
///
/// let mut left = Snapshot::default();
/// left.spawning = 1;
/// assert_eq!(CloseTimedOut::new(left).to_string(), "the pool still has 1 spawn");
/// ```
#[derive(Clone, Debug)]
pub struct CloseTimedOut(Box<Snapshot>);

impl CloseTimedOut {
    /// Returns the error for a pool with this left. Groups without a process are left out.
    pub fn new(mut left: Snapshot) -> Self {
        left.groups.retain(|group| !group.processes.is_empty());
        CloseTimedOut(Box::new(left))
    }
    /// Returns what was left after the deadline: each group with its processes.
    pub fn left(&self) -> &Snapshot {
        &self.0
    }
    /// Returns how many groups have processes.
    pub fn groups(&self) -> usize {
        self.0.groups.len()
    }
    /// Returns how many processes have sessions, and finish them.
    pub fn processes(&self) -> usize {
        self.0.groups.iter().map(|group| group.processes.len()).sum()
    }
    /// Returns how many sessions are open.
    pub fn sessions(&self) -> usize {
        self.0.groups.iter().flat_map(|group| &group.processes).map(|p| p.sessions).sum()
    }
    /// Returns how many spawns are in flight, though cancelled.
    pub fn spawning(&self) -> usize {
        self.0.spawning
    }
    /// Returns how many processes are being shut down: their `shut_down` has not returned.
    pub fn shutting_down(&self) -> usize {
        self.0.shutting_down
    }
}

impl fmt::Display for CloseTimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = [
            (self.groups(), "group", "groups"),
            (self.processes(), "process", "processes"),
            (self.sessions(), "session", "sessions"),
            (self.spawning(), "spawn", "spawns"),
            (self.shutting_down(), "process that shuts down", "processes that shut down"),
        ];
        let left: Vec<String> = counted
            .iter()
            .filter(|(n, ..)| *n > 0)
            .map(|(n, one, many)| format!("{n} {}", if *n == 1 { one } else { many }))
            .collect();
        match left.is_empty() {
            // It came to its end between the deadline and the snapshot.
            true => f.write_str("the pool was not closed in time"),
            false => write!(f, "the pool still has {}", left.join(", ")),
        }
    }
}

impl Error for CloseTimedOut {}
