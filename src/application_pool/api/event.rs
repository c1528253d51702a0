//! The events that the pool reports to its observer, without its lock.

use super::error::SpawnError;
use super::options::RestartMode;
use super::spawner::Identifier;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened in the pool. See [`Builder::observer`](crate::application_pool::Builder::observer).
///
/// # Order
/// The events of one call come in the order in which they happen. The pool calls the observer with a process's end only
/// after the call with its beginning has returned. Otherwise, events of different threads come in any order.
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
    /// A spawn gave a process.
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
    /// A process was detached: it takes no more sessions, and leaves when it has none. Each process that is reported as
    /// spawned is reported as detached, once.
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
    /// A get had to wait, and was served: with a connection, if it asked for one. Reported once a get.
    Waited {
        /// The group's name.
        group: Arc<str>,
        /// How long, from its first wait on.
        waited: Duration,
    },
    /// A restart file, or `restart_group`, asked for a restart, and it begins.
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
    /// [`process_is_gone`](crate::ApplicationPool::process_is_gone) was called.
    Gone,
    /// It could not be connected to, it broke a session, or its failure was reported.
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
    /// It was never attached: when it was ready, its spawn had been cancelled, or a limit had been lowered.
    Unwanted,
}

impl fmt::Display for DetachReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DetachReason::Requested => "requested",
            DetachReason::Gone => "it is gone",
            DetachReason::Failed => "it failed",
            DetachReason::Idle => "idle for too long",
            DetachReason::Evicted => "made room for another group",
            DetachReason::MaxRequests => "maximum of requests reached",
            DetachReason::Restarted => "restarted",
            DetachReason::Closed => "the pool was closed",
            DetachReason::Unwanted => "no longer wanted",
        })
    }
}
