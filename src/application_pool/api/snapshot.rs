//! A picture of the pool, copied in slices.

use super::spawner::Identifier;
use super::totals::Totals;
use std::path::PathBuf;
use std::time::Duration;

/// The whole pool.
///
/// A pool of up to 512 groups and processes is shown at one moment. A larger one is copied in slices, so that gets go
/// on meanwhile. Its numbers are then those of the first moment, and each group is shown at a moment of its own.
///
/// ```
/// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
/// let pool = ApplicationPool::builder(InMemorySpawner::new()).max(4).build()?;
/// let session = pool.get(&PoolOptions::new("/srv/shop"))?;
///
/// let snapshot = pool.snapshot();
/// assert_eq!((snapshot.active, snapshot.count, snapshot.max), (1, 1, 4));
/// for group in &snapshot.groups {
///     println!("{}: {} processes, {} waiting", group.name, group.processes.len(), group.waiting);
/// }
/// # drop(session);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A test makes one of its own from the default, which is empty:
///
/// ```
/// use cabrank::application_pool::{GroupSnapshot, ProcessSnapshot, ProcessState, Snapshot};
///
/// let mut process = ProcessSnapshot::default();
/// (process.state, process.sessions) = (ProcessState::Busy, 2);
/// let mut group = GroupSnapshot::default();
/// (group.name, group.processes) = ("/srv/shop".into(), vec![process]);
/// let mut snapshot = Snapshot::default();
/// (snapshot.count, snapshot.active, snapshot.groups) = (1, 1, vec![group]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// How many processes there may be.
    pub max: usize,
    /// How many processes one group may have; `None`: as many as the pool.
    pub max_per_app: Option<usize>,
    /// Processes in the pool.
    pub count: usize,
    /// Processes with a session, among these.
    pub active: usize,
    /// Spawns in flight.
    pub spawning: usize,
    /// Detached processes that finish their sessions.
    pub draining: usize,
    /// Processes that have left, and whose `shut_down` has not returned.
    pub shutting_down: usize,
    /// Gets that wait.
    pub waiting: usize,
    /// Whether the pool is closed.
    pub closed: bool,
    /// Counted since the pool was built.
    pub totals: Totals,
    /// The groups, by name.
    pub groups: Vec<GroupSnapshot>,
}

/// The numbers of a pool that change, in O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Counts {
    /// Processes in the pool.
    pub count: usize,
    /// Processes with a session, among these.
    pub active: usize,
    /// Spawns in flight.
    pub spawning: usize,
    /// Detached processes that finish their sessions.
    pub draining: usize,
    /// Processes that have left, and whose `shut_down` has not returned.
    pub shutting_down: usize,
    /// Gets that wait.
    pub waiting: usize,
}

/// One group of a [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GroupSnapshot {
    /// Its name.
    pub name: String,
    /// The application root of its latest get.
    pub app_root: PathBuf,
    /// The environment.
    pub environment: String,
    /// The minimum of processes.
    pub min_processes: usize,
    /// Gets that wait for it.
    pub waiting: usize,
    /// Whether a process is being spawned for it.
    pub spawning: bool,
    /// Whether a restart is under way.
    pub restarting: bool,
    /// How many restarts there were.
    pub generation: u64,
    /// For how long it spawns no process, because spawns failed.
    pub backing_off: Option<Duration>,
    /// Why its latest spawn failed; absent once one has succeeded.
    pub last_error: Option<String>,
    /// Its attached processes, oldest first, followed by those that drain.
    pub processes: Vec<ProcessSnapshot>,
}

/// One process of a [`GroupSnapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProcessSnapshot {
    /// Its identifier.
    pub identifier: Identifier,
    /// Its process id, if it has one.
    pub pid: Option<u32>,
    /// Its state.
    pub state: ProcessState,
    /// Open sessions.
    pub sessions: usize,
    /// Closed sessions.
    pub processed: usize,
    /// How many sessions it takes at once; `None`: any number.
    pub concurrency: Option<usize>,
    /// How long it has been in the pool.
    pub age: Duration,
    /// How long ago its last session was closed, or it was attached.
    pub last_used: Duration,
    /// Whether a restart will replace it.
    pub outdated: bool,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ProcessState {
    /// It has no session.
    #[default]
    Idle,
    /// It has sessions.
    Busy,
    /// It has sessions, and is to make room for another group: it leaves when they have ended, or at the deadline. It
    /// gets new sessions only if no other process of its group has room.
    Retiring,
    /// It is [disabled](crate::application_pool::ApplicationPool::disable): it finishes its sessions, and is given no more.
    Disabled,
    /// It is detached, and finishes its sessions.
    Draining,
}
