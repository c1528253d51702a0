//! One consistent picture of the pool.

use super::error::SpawnError;
use super::inner::Inner;
use super::options::PoolOptions;
use super::process_info::{Place, ProcessInfo};
use super::spawner::{Identifier, Spawner};
use super::state::State;
use super::totals::Totals;
use crate::clock::Time;
use crate::section::Guarded;
use crate::user_code::{contain, drop_contained};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The whole pool at one moment.
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Gets that wait.
    pub waiting: usize,
}

/// One group of a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ProcessState {
    /// It has no session.
    Idle,
    /// It has sessions.
    Busy,
    /// It has sessions, and is to make room for another group: it leaves when they have ended, or at the deadline. It
    /// gets new sessions only if no other process of its group has room.
    Retiring,
    /// It is detached, and finishes its sessions.
    Draining,
}

impl<S: Spawner> State<S> {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            count: self.count,
            active: self.active,
            spawning: self.reserved + self.replacing,
            draining: self.draining.len(),
            waiting: self.waiting,
        }
    }
}

/// A group's part of the copy made under the lock: numbers and counted references, no text.
struct RawGroup {
    key: usize,
    name: Arc<str>,
    options: PoolOptions,
    last_error: Option<SpawnError>,
    back_off_until: Option<Time>,
    snapshot: GroupSnapshot,
}

impl<S: Spawner> Inner<S> {
    pub(crate) fn snapshot(self: &Arc<Self>) -> Snapshot {
        let mut groups: Vec<RawGroup> = Vec::new();
        let mut processes: Vec<(usize, ProcessSnapshot)> = Vec::new();
        loop {
            // Allocates without the lock, and again if the pool has grown meanwhile.
            let (many_groups, many_processes) =
                self.critical(|state, _| (state.groups.len(), state.processes.len()));
            groups.reserve(many_groups);
            processes.reserve(many_processes);
            let taken = self.critical(|state, _| state.copy(&mut groups, &mut processes));
            if let Some((now, snapshot)) = taken {
                return put_together(now, snapshot, groups, processes);
            }
        }
    }
}

impl<S: Spawner> State<S> {
    fn copy(
        &self,
        groups: &mut Vec<RawGroup>,
        processes: &mut Vec<(usize, ProcessSnapshot)>,
    ) -> Option<(Time, Snapshot)> {
        if groups.capacity() < self.groups.len() || processes.capacity() < self.processes.len() {
            return None;
        }
        let now = self.clock.now();
        for (key, group) in &self.groups {
            groups.push(RawGroup {
                key,
                name: group.name.clone(),
                options: group.options.clone(),
                last_error: group.last_error.clone(),
                back_off_until: group.back_off_until,
                snapshot: GroupSnapshot {
                    name: String::new(),
                    app_root: PathBuf::new(),
                    environment: String::new(),
                    min_processes: group.min_processes(),
                    waiting: group.queue.len(),
                    spawning: group.spawning.is_some(),
                    restarting: group.is_restarting(),
                    generation: group.generation,
                    backing_off: None,
                    last_error: None,
                    processes: Vec::new(),
                },
            });
        }
        for (_, info) in &self.processes {
            let outdated = info.generation < self.group(info.group).generation;
            processes.push((info.group.index(), info.snapshot(now, outdated)));
        }
        let counts = self.counts();
        let snapshot = Snapshot {
            max: self.max,
            max_per_app: self.max_per_app,
            count: counts.count,
            active: counts.active,
            spawning: counts.spawning,
            draining: counts.draining,
            waiting: counts.waiting,
            closed: self.closed,
            totals: self.totals,
            groups: Vec::new(),
        };
        Some((now, snapshot))
    }
}

impl<S: Spawner> ProcessInfo<S> {
    fn snapshot(&self, now: Time, outdated: bool) -> ProcessSnapshot {
        ProcessSnapshot {
            identifier: self.entry.identifier,
            pid: self.entry.pid,
            state: match self.place {
                Place::Draining => ProcessState::Draining,
                _ if self.marked => ProcessState::Retiring,
                _ if self.sessions > 0 => ProcessState::Busy,
                _ => ProcessState::Idle,
            },
            sessions: self.sessions,
            processed: self.processed,
            concurrency: self.concurrency,
            age: now.since(self.start_time),
            last_used: now.since(self.last_used),
            outdated,
        }
    }
}

fn put_together(
    now: Time,
    mut snapshot: Snapshot,
    groups: Vec<RawGroup>,
    mut processes: Vec<(usize, ProcessSnapshot)>,
) -> Snapshot {
    // Identifiers count upwards, so the oldest process has the lowest.
    processes.sort_by_key(|(group, p)| (*group, p.state == ProcessState::Draining, p.identifier));
    let mut processes = processes.into_iter().peekable();
    let mut groups = groups;
    groups.sort_by_key(|raw| raw.key);
    for raw in groups {
        let mut group = raw.snapshot;
        group.name = raw.name.to_string();
        group.app_root = raw.options.app_root().to_owned();
        group.environment = raw.options.environment().to_owned();
        group.backing_off = raw.back_off_until.map(|until| until.since(now));
        group.last_error = raw.last_error.map(|error| {
            let shown = contain(|| error.to_string()).unwrap_or_else(|panic| panic);
            // The pool may have dropped its own reference meanwhile.
            drop_contained(error);
            shown
        });
        while let Some((_, process)) = processes.next_if(|(key, _)| *key == raw.key) {
            group.processes.push(process);
        }
        snapshot.groups.push(group);
    }
    snapshot.groups.sort_by(|a, b| a.name.cmp(&b.name));
    snapshot
}
