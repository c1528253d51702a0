//! The budget of descriptors, and the connections that it allows.
//!
//! At start the soft limit of descriptors is raised to the hard one. A part of it is reserved: for
//! connections to processes, for spawns, the tools and the log. The rest is for clients. A client that
//! would exceed it takes the place of the oldest idle connection, or gets 503 at once.

use crate::observe::rare::Rare;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Descriptors that the server itself needs: listener, sockets of tools, runtimes, logs, processes.
const OWN: u64 = 64;
/// The most descriptors for requests in progress: a connection to a process, and a file or two.
const MOST_RESERVED: u64 = 4096;
/// The number of connections where the system has no limit of descriptors.
const UNLIMITED: u64 = 1 << 20;

/// The numbers that follow from the limit of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// The largest number of clients' connections.
    pub(crate) connections: usize,
    /// The largest number of requests that have a process.
    pub(crate) requests: usize,
}

/// Raises the soft limit of descriptors to the hard one, and divides it. `listeners`: the descriptors of listeners.
pub(crate) fn raise(listeners: usize) -> Shares {
    let divide = |limit: u64| divide(limit.saturating_sub(listeners as u64));
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(e) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!("cannot raise the limit of open files: {e}");
            return divide(limit.current.unwrap_or(UNLIMITED));
        }
    }
    divide(limit.maximum.unwrap_or(UNLIMITED))
}

fn divide(descriptors: u64) -> Shares {
    let descriptors = descriptors.saturating_sub(OWN);
    let reserved = (descriptors / 4).clamp(1, MOST_RESERVED);
    let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    // A request in progress may use two: its connection to the process, and a file.
    Shares {
        connections: whole(descriptors.saturating_sub(reserved)),
        requests: whole(reserved / 2),
    }
}

/// The number of open connections, and its limit.
#[derive(Debug)]
pub(crate) struct Budget {
    open: AtomicUsize,
    max: usize,
    /// The line that says that clients were turned away.
    pub(crate) refusals: Rare,
    /// The line that says that idle connections were closed.
    pub(crate) evictions: Rare,
    /// The line that says that a connection could not be accepted.
    pub(crate) failures: Rare,
}

impl Budget {
    pub(crate) fn new(max: usize) -> Self {
        let (refusals, evictions, failures) = Default::default();
        Budget { open: AtomicUsize::new(0), max, refusals, evictions, failures }
    }

    /// Returns the limit.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Counts a connection, and returns whether it exceeds the limit.
    pub(crate) fn open(&self) -> bool {
        self.open.fetch_add(1, Ordering::Relaxed) >= self.max
    }

    /// Counts the end of a connection.
    pub(crate) fn close(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_leave_room_for_the_server_itself() {
        for limit in [80, 256, 1024, 20_480, 1 << 20] {
            let shares = divide(limit);
            let used = shares.connections as u64 + 2 * shares.requests as u64 + OWN;
            assert!(used <= limit, "{limit}: {shares:?}");
        }
        assert_eq!(divide(20_480), Shares { connections: 16_320, requests: 2048 });
        assert_eq!(divide(64), Shares { connections: 1, requests: 1 }, "the least");
    }
}
