//! What may happen, and what is told of it.
//!
//! An [`Action`] is what the text does between taking its lock and releasing it. What it does there that
//! somebody could notice is told as [`Event`]s: they are what stories are made of, and what the
//! properties of steps look at.

use crate::configuration::{ClientId, Dir, GroupId, OptionsId, ProcessId, Time};

/// How a spawn ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpawnResult {
    /// With a process.
    Process,
    /// With an error.
    Error,
    /// Its thread could not be started (E11).
    NoThread,
}

/// One critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Action {
    /// A client asks for a session with a process of the group.
    Get { client: ClientId, group: GroupId },
    /// The same, without wanting to wait.
    TryGet { client: ClientId, group: GroupId },
    /// A client looks for a process again.
    Retry { client: ClientId },
    /// A client has connected.
    Connected { client: ClientId },
    /// A client has not: the process is at fault, or the client's own side is (E31).
    ConnectFails { client: ClientId, local: bool },
    /// A client gives up: its time is up, or it was cancelled.
    GiveUp { client: ClientId },
    /// A session is over.
    CloseSession { client: ClientId },
    /// A session was broken by its process.
    SessionFails { client: ClientId },
    /// A spawn ends.
    SpawnEnds { ticket: ProcessId, result: SpawnResult },
    /// `restart.txt` is made, or touched.
    Touch { dir: Dir },
    /// `restart.txt` is deleted.
    Delete { dir: Dir },
    /// A process is detached by its identifier.
    Detach { process: ProcessId },
    /// A group is detached and forgotten.
    DetachGroup { group: GroupId },
    /// From now on gets of the group come with these options.
    SetOptions { group: GroupId, options: OptionsId },
    /// `max` is set.
    SetMax(usize),
    /// `max_per_app` is set.
    SetMaxPerApp(usize),
    /// `MAX_IDLE_TIME` is set.
    SetMaxIdleTime(Time),
    /// The counter advances.
    Tick,
    /// One pass of the cleaner.
    Clean,
    /// The pool is closed.
    ClosePool,
}

/// Why a process is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// By its identifier, or by its group's name.
    Requested,
    /// To make room for a process of another group.
    Evicted(Option<GroupId>),
    /// It was idle for too long.
    Idle,
    /// It was given its last session.
    MaxRequests,
    /// It broke a session, or could not be connected to.
    Failed,
    /// Its group was restarted.
    Restarted,
    /// A spawn of its group failed (E26 as written).
    SpawnFailed,
    /// The pool was closed.
    Closed,
}

/// Why a get fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Failure {
    Closed,
    QueueFull,
    WouldBlock,
    Spawn,
    Connect,
    GaveUp,
}

/// What happens in an action, to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Event {
    Waits { client: ClientId },
    Woken { client: ClientId },
    Served { client: ClientId, process: ProcessId },
    Failed { client: ClientId, why: Failure },
    SpawnBegun { group: GroupId, ticket: ProcessId, replaces: bool },
    GivenUp { ticket: ProcessId },
    Attached { group: GroupId, process: ProcessId },
    Unwanted { ticket: ProcessId },
    Orphaned { ticket: ProcessId },
    SpawnFailed { group: GroupId, ticket: ProcessId },
    Detached { process: ProcessId, group: GroupId, reason: Reason, busy: bool },
    Gone { process: ProcessId, busy: bool },
    Restarting { group: GroupId },
    Condemned { process: ProcessId },
    Reprieved { process: ProcessId },
    LockHeld,
}
