//! Copies the state for a snapshot, slice by slice.

use super::process_info::Place;
use super::state::{Info, State};
use super::table_keys::GroupKey;
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::snapshot::{
    Counts, GroupSnapshot, ProcessSnapshot, ProcessState, Snapshot,
};
use crate::application_pool::api::spawner::Spawner;
use crate::kernel::clock::Time;
use std::path::PathBuf;
use std::sync::Arc;

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
pub(crate) const SLICE: usize = 512;
/// How many vacant places of the table of groups cost as much as one copy.
const VACANT: usize = 16;

/// The copy made under the lock, slice by slice.
#[derive(Default)]
pub(crate) struct Copied {
    /// The pool's numbers, from the first section.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) groups: Vec<RawGroup>,
    pub(crate) processes: Vec<(GroupKey, ProcessSnapshot)>,
    /// The index of the next group.
    next: usize,
}

/// A group's part of the copy: numbers and counted references, no text.
pub(crate) struct RawGroup {
    pub(crate) key: GroupKey,
    pub(crate) name: Arc<str>,
    pub(crate) options: PoolOptions,
    pub(crate) last_error: Option<SpawnError>,
    pub(crate) snapshot: GroupSnapshot,
}

pub(crate) enum Progress {
    Complete,
    /// Another section is needed, with room for this many groups and processes.
    Partial(usize, usize),
}

impl<S: Spawner> State<S> {
    /// Copies the next groups, each with all its processes: a slice, so that no get waits for long (erratum E41).
    pub(crate) fn copy(&self, copied: &mut Copied, slice: usize) -> Progress {
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
