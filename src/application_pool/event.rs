//! The events that the pool reports to its observer, without its lock.

use super::error::SpawnError;
use super::options::RestartMode;
use super::spawner::Identifier;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened in the pool. See [`Builder::observer`](crate::application_pool::Builder::observer).
///
/// ```
/// use cabrank::application_pool::Event;
///
/// fn log(event: &Event) {
///     match event {
///         Event::SpawnFailed { group, error, .. } => eprintln!("{group}: {error}"),
///         Event::Detached { group, reason, .. } => eprintln!("{group}: {reason}"),
///         _ => {}
///     }
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A process was spawned and attached.
    Spawned {
        /// The group's name.
        group: Arc<str>,
        /// The process.
        identifier: Identifier,
        /// Its process id, if it has one.
        pid: Option<u32>,
    },
    /// A process could not be spawned.
    SpawnFailed {
        /// The group's name.
        group: Arc<str>,
        /// Why.
        error: SpawnError,
        /// For how long the group backs off.
        retry_in: Duration,
    },
    /// A process was detached: it takes no more sessions, and leaves when it has none.
    Detached {
        /// The group's name.
        group: Arc<str>,
        /// The process.
        identifier: Identifier,
        /// Its process id, if it has one.
        pid: Option<u32>,
        /// Why.
        reason: DetachReason,
    },
    /// A get had to wait, and was served.
    Waited {
        /// The group's name.
        group: Arc<str>,
        /// How long.
        waited: Duration,
    },
    /// A restart file asked for a restart, and it begins.
    Restarting {
        /// The group's name.
        group: Arc<str>,
        /// How it is carried out.
        mode: RestartMode,
    },
}

/// Why a process was detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DetachReason {
    /// `detach` or `detach_group` was called.
    Requested,
    /// It could not be connected to, or it broke a session.
    Failed,
    /// It was idle for too long.
    Idle,
    /// It made room for another group.
    Evicted,
    /// It was given its maximum of sessions.
    MaxRequests,
    /// A process with newer code takes its place.
    Restarted,
    /// The pool was closed.
    Closed,
}

impl fmt::Display for DetachReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DetachReason::Requested => "requested",
            DetachReason::Failed => "it failed",
            DetachReason::Idle => "idle for too long",
            DetachReason::Evicted => "made room for another group",
            DetachReason::MaxRequests => "maximum of requests reached",
            DetachReason::Restarted => "restarted",
            DetachReason::Closed => "the pool was closed",
        })
    }
}
