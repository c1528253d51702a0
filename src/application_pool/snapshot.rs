//! A picture of the pool, copied in slices.

use super::error::SpawnError;
use super::inner::Inner;
use super::options::PoolOptions;
use super::process_info::Place;
use super::spawner::{Identifier, Spawner};
use super::state::{Info, State};
use super::table_keys::GroupKey;
use super::totals::Totals;
use crate::kernel::clock::Time;
use crate::kernel::user_code::{contain, drop_contained};
use std::path::PathBuf;
use std::sync::Arc;
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
    /// It is [disabled](super::ApplicationPool::disable): it finishes its sessions, and is given no more.
    Disabled,
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
            shutting_down: self.disposing,
            waiting: self.waiting,
        }
    }
}

/// How many groups and processes one section copies, about. A pool with no more is copied in one section.
const SLICE: usize = 512;
/// How many vacant places of the table of groups cost as much as one copy.
const VACANT: usize = 16;

/// The copy made under the lock, slice by slice.
#[derive(Default)]
struct Copied {
    /// The pool's numbers, from the first section.
    snapshot: Option<Snapshot>,
    groups: Vec<RawGroup>,
    processes: Vec<(GroupKey, ProcessSnapshot)>,
    /// The index of the next group.
    next: usize,
}

/// A group's part of the copy: numbers and counted references, no text.
struct RawGroup {
    key: GroupKey,
    name: Arc<str>,
    options: PoolOptions,
    last_error: Option<SpawnError>,
    snapshot: GroupSnapshot,
}

enum Progress {
    Complete,
    /// Another section is needed, with room for this many groups and processes.
    Partial(usize, usize),
}

impl<S: Spawner> Inner<S> {
    pub(crate) fn snapshot(self: &Arc<Self>) -> Snapshot {
        let mut copied = Copied::default();
        let (groups, processes) =
            self.state.look(|state| (state.groups.len(), state.processes.len()));
        let mut room = (groups.min(SLICE), processes.min(SLICE));
        loop {
            // Allocates without the lock.
            copied.groups.reserve(room.0);
            copied.processes.reserve(room.1);
            // Otherwise the next look would take the lock again before a get that waits for it has woken.
            match self.state.look_fairly(|state| state.copy(&mut copied, SLICE)) {
                Progress::Complete => return put_together(copied),
                Progress::Partial(groups, processes) => room = (groups, processes),
            }
        }
    }
}

impl<S: Spawner> State<S> {
    /// Copies the next groups, each with all its processes: a slice, so that no get waits for long (erratum E41).
    fn copy(&self, copied: &mut Copied, slice: usize) -> Progress {
        let (groups, processes) = (self.groups.len(), self.processes.len());
        let fits = copied.groups.capacity() >= groups && copied.processes.capacity() >= processes;
        if copied.snapshot.is_none() && groups + processes <= slice && !fits {
            // It has grown meanwhile, and is to be shown at one moment.
            return Progress::Partial(groups, processes);
        }
        copied.snapshot.get_or_insert_with(|| self.numbers());
        let now = self.clock.now();
        let mut left = slice * VACANT;
        while copied.next < self.groups.capacity() && left > 0 {
            let cost = match self.groups.key_at(copied.next) {
                None => 1,
                Some(key) => {
                    let group = self.group(key);
                    let size = group.size + group.draining.len();
                    let room = copied.processes.capacity() - copied.processes.len();
                    if copied.groups.len() == copied.groups.capacity() || room < size {
                        return Progress::Partial(slice, slice.max(size));
                    }
                    self.copy_group(key, now, copied);
                    VACANT * (1 + size)
                }
            };
            copied.next += 1;
            left = left.saturating_sub(cost);
        }
        match copied.next < self.groups.capacity() {
            true => Progress::Partial(slice, slice),
            false => Progress::Complete,
        }
    }

    fn numbers(&self) -> Snapshot {
        let counts = self.counts();
        Snapshot {
            max: self.max,
            max_per_app: self.max_per_app,
            count: counts.count,
            active: counts.active,
            spawning: counts.spawning,
            draining: counts.draining,
            shutting_down: counts.shutting_down,
            waiting: counts.waiting,
            closed: self.closed,
            totals: self.totals,
            groups: Vec::new(),
        }
    }

    fn copy_group(&self, key: GroupKey, now: Time, copied: &mut Copied) {
        let group = self.group(key);
        copied.groups.push(RawGroup {
            key,
            name: group.name.clone(),
            options: group.options.clone(),
            last_error: group.last_error.clone(),
            snapshot: GroupSnapshot {
                name: String::new(),
                app_root: PathBuf::new(),
                environment: String::new(),
                min_processes: group.min_processes(),
                waiting: group.queue.len(),
                spawning: group.spawning.is_some(),
                restarting: group.is_restarting(),
                generation: group.generation,
                backing_off: group.back_off_until.map(|until| until.since(now)),
                last_error: None,
                processes: Vec::new(),
            },
        });
        let all = group.by_age.iter(&self.processes).chain(group.draining.iter(&self.processes));
        for process in all {
            let info = self.process(process);
            let outdated = info.generation < group.generation;
            copied.processes.push((key, info.snapshot(now, outdated)));
        }
    }
}

impl<S: Spawner> Info<S> {
    fn snapshot(&self, now: Time, outdated: bool) -> ProcessSnapshot {
        ProcessSnapshot {
            identifier: self.entry.identifier,
            pid: self.entry.pid,
            state: match self.place {
                Place::Draining => ProcessState::Draining,
                Place::Disabled => ProcessState::Disabled,
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

fn put_together(copied: Copied) -> Snapshot {
    let Copied { snapshot, mut groups, mut processes, .. } = copied;
    let mut snapshot = snapshot.expect("the first section sets it");
    // Identifiers count upwards, so the oldest process has the lowest.
    processes.sort_by_key(|(group, p)| (*group, p.state == ProcessState::Draining, p.identifier));
    let mut processes = processes.into_iter().peekable();
    groups.sort_by_key(|raw| raw.key);
    for raw in groups {
        let mut group = raw.snapshot;
        group.name = raw.name.to_string();
        group.app_root = raw.options.app_root().to_owned();
        group.environment = raw.options.environment().to_owned();
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
    // A group may have been forgotten, and made again at a later place.
    snapshot.groups.dedup_by(|a, b| a.name == b.name);
    snapshot
}

#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::ApplicationPool;
    use crate::in_memory::InMemorySpawner;
    use crate::kernel::section::Guarded;

    #[test] // E41
    fn a_large_pool_is_copied_in_slices_and_completely() {
        const SLICE: usize = 32;
        const MANY: usize = 3 * SLICE;
        let builder = ApplicationPool::builder(InMemorySpawner::new()).max(MANY).cleaner(false);
        let pool = builder.build().expect("a valid pool");
        for nth in 0..MANY {
            // Every fourth group is gone again; every third of the others has no process.
            let options = PoolOptions::new(format!("/{nth:05}"));
            drop(pool.get(&options).expect("a session"));
            match nth % 4 {
                0 => assert!(pool.detach_group(options.app_group_name())),
                1 => pool.inner().critical(|state, fx| {
                    let key = state.group_by_name[options.app_group_name()];
                    let process = state.group(key).by_age.front().expect("its process");
                    state.detach_process(process, crate::application_pool::DetachReason::Idle, fx);
                    state.settle(key, fx);
                }),
                _ => {}
            }
        }
        let mut copied = Copied::default();
        let mut sections = 0;
        loop {
            sections += 1;
            copied.groups.reserve(SLICE);
            copied.processes.reserve(SLICE);
            let before = copied.groups.len() + copied.processes.len();
            let progress = pool.inner().critical(|state, _| state.copy(&mut copied, SLICE));
            let slice = copied.groups.len() + copied.processes.len() - before;
            assert!(slice <= SLICE + 1, "one section copies {slice}");
            if matches!(progress, Progress::Complete) {
                break;
            }
        }
        assert_eq!(sections, (MANY * 5 / 4).div_ceil(SLICE));
        let snapshot = pool.snapshot();
        assert_eq!((snapshot.count, snapshot.groups.len()), (MANY / 2, MANY * 3 / 4));
        let processes = snapshot.groups.iter().map(|group| group.processes.len());
        assert_eq!(processes.sum::<usize>(), MANY / 2);
        assert!(snapshot.groups.is_sorted_by(|a, b| a.name < b.name));
    }
}
