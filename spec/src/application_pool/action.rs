//! Actions and events.
//!
//! An [`Action`] is one critical section of the pseudocode. Its observable effects are [`Event`]s: the
//! stories print them, and the properties of steps judge them.

use crate::application_pool::configuration::{
    ClientId, Dir, GroupId, OptionsId, ProcessId, RestartMode, Time,
};

/// The outcome of a spawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpawnResult {
    /// The spawn gives a process.
    Process,
    /// The spawn fails.
    Error,
    /// The spawner thread cannot be started (E11).
    NoThread,
}

/// One critical section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the fields and variants are those of the pseudocode")]
pub enum Action {
    /// A client asks for a session with a process of the group.
    Get { client: ClientId, group: GroupId },
    /// A client asks for a session without waiting.
    TryGet { client: ClientId, group: GroupId },
    /// A client looks for a process again.
    Retry { client: ClientId },
    /// A client has connected.
    Connected { client: ClientId },
    /// A client fails to connect: the process is at fault, or (`local`) the client's own side (E31).
    ConnectFails { client: ClientId, local: bool },
    /// A client gives up: its deadline or its time in the queue has passed, or it was cancelled.
    GiveUp { client: ClientId },
    /// A client closes its session.
    CloseSession { client: ClientId },
    /// A client decides never to close its session (E37). It loses the session when its process is shut down.
    NeverCloses { client: ClientId },
    /// A process breaks a session.
    SessionFails { client: ClientId },
    /// A spawn ends.
    SpawnEnds { ticket: ProcessId, result: SpawnResult },
    /// `restart.txt` is created or touched.
    Touch { dir: Dir },
    /// `restart.txt` is deleted.
    Delete { dir: Dir },
    /// A process is detached by its identifier.
    Detach { process: ProcessId },
    /// A process is disabled.
    Disable { process: ProcessId },
    /// A disabled process is enabled.
    Enable { process: ProcessId },
    /// A process is seen to have failed.
    ProcessFails { process: ProcessId },
    /// A group is detached and forgotten.
    DetachGroup { group: GroupId },
    /// A caller restarts a group by its name.
    RestartGroup { group: GroupId, mode: RestartMode },
    /// A caller asks for the minimum of a group's processes, without a get.
    PreStart { group: GroupId },
    /// From now on gets for the group bring these options.
    SetOptions { group: GroupId, options: OptionsId },
    /// `max` is set.
    SetMax(usize),
    /// `max_per_app` is set.
    SetMaxPerApp(usize),
    /// `MAX_IDLE_TIME` is set.
    SetMaxIdleTime(Time),
    /// Time advances.
    Tick,
    /// One pass of the cleaner.
    Clean,
    /// The pool is closed.
    ClosePool,
}

/// The reason why a process is detached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A caller detached the process or its group.
    Requested,
    /// Another group needs its place.
    Evicted(Option<GroupId>),
    /// The process was idle for too long.
    Idle,
    /// The process was given its last session.
    MaxRequests,
    /// The process broke a session or refused a connection.
    Failed,
    /// The group was restarted.
    Restarted,
    /// A spawn of the group failed (E26 as written).
    SpawnFailed,
    /// The pool was closed.
    Closed,
}

/// The reason why a get fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the fields and variants are those of the pseudocode")]
pub enum Failure {
    Closed,
    QueueFull,
    WouldBlock,
    Spawn,
    Connect,
    GaveUp,
}

/// An observable effect of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the fields and variants are those of the pseudocode")]
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
    MarkedForEviction { process: ProcessId },
    Unmarked { process: ProcessId },
    LockHeld,
}
