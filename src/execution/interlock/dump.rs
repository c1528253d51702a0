//! A dump: all executions at one moment, their waits, and what blocks each.
//!
//! A [`Picture`] is a plain copy taken under the lock. [`develop`](Picture::develop) works out the rest without the
//! lock. Both take O(n): owners that are blocked by the same others refer to one list of them.

use super::modes::{Mode, Owner, Purpose, Waiter};
use super::owner_id::OwnerId;
use super::state::{Holder, State};
use crate::clock::Time;
use std::panic::Location;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// The interlock at one moment. Its `Display` is a table.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Dump {
    /// How many unloads there were.
    pub generation: u64,
    /// The executions that run, or wait to.
    pub owners: Vec<OwnerDump>,
}

/// One execution of a [`Dump`].
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OwnerDump {
    /// Its identifier.
    pub id: OwnerId,
    /// Its [name](super::Running::set_name), if it has one.
    pub name: Option<String>,
    /// Its state.
    pub state: OwnerState,
    /// The name and identifier of its thread. Absent for a task.
    pub thread: Option<String>,
    /// Where in the source it began.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub entered_at: &'static Location<'static>,
    /// How long ago it began.
    pub age: Duration,
    /// The permit blocks that it is in.
    pub permits: u32,
    /// How many executions it consists of: itself and those nested in it.
    pub views: u32,
    /// Its wait, if it waits.
    pub wait: Option<WaitDump>,
}

/// The wait of one execution.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct WaitDump {
    /// Where in the source it waits.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub at: &'static Location<'static>,
    /// How long it has waited.
    pub since: Duration,
    /// The executions that keep it from going on: see [`Dump::blockers`].
    pub blocked_by: BlockedBy,
    /// The backtrace of the wait (feature `backtrace`).
    pub backtrace: Option<String>,
}

/// The state of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum OwnerState {
    /// It waits to enter.
    Entering,
    /// It has a share.
    Running,
    /// It has given its share up, and waits to load.
    WaitingToLoad,
    /// It has given its share up, and waits to unload.
    WaitingToUnload,
    /// It loads.
    Loading,
    /// It unloads.
    Unloading,
    /// It is in a permit block.
    Permitting,
    /// It waits for its share, after a permit block or a wait that was given up.
    Resuming,
    /// It has loaded or unloaded, and lets others do so first.
    Draining,
}

/// The executions that keep another from going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum BlockedBy {
    /// The one that loads or unloads.
    Holder,
    /// All that run.
    Running,
    /// Those in permit blocks.
    Permits,
    /// Those that wait to load, and those that have loaded and let others load first.
    Loads,
    /// Those that wait to unload.
    Unloads,
}

#[derive(Debug)]
pub(super) struct Picture {
    generation: u64,
    holder: Option<Holder>,
    owners: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    id: OwnerId,
    mode: Mode,
    name: Option<Arc<str>>,
    thread: Option<Thread>,
    at: &'static Location<'static>,
    since: Time,
    permits: u32,
    views: u32,
    wait: Option<SeenWait>,
}

#[derive(Debug)]
struct SeenWait {
    at: &'static Location<'static>,
    since: Time,
    #[cfg(feature = "backtrace")]
    backtrace: Option<Arc<std::backtrace::Backtrace>>,
}

impl Picture {
    pub(super) fn of(state: &State) -> Picture {
        let owners = state.all().map(Seen::of).collect();
        Picture { generation: state.generation, holder: state.holder, owners }
    }
    pub(super) fn develop(self, now: Time) -> Dump {
        let any = |wanted: &[Mode]| self.owners.iter().any(|owner| wanted.contains(&owner.mode));
        let around = Around {
            holder: self.holder.map(|holder| holder.purpose),
            runs: any(&[Mode::Running]),
            loads: any(&[Mode::Waiting(Purpose::Load), Mode::Draining(Purpose::Load)]),
        };
        let owners = self.owners.iter().map(|owner| owner.develop(&around, now)).collect();
        Dump { generation: self.generation, owners }
    }
}

struct Around {
    holder: Option<Purpose>,
    runs: bool,
    loads: bool,
}

impl Seen {
    fn of(owner: &Owner) -> Seen {
        Seen {
            id: owner.id,
            mode: owner.mode,
            name: owner.name.clone(),
            thread: owner.thread.clone(),
            at: owner.at,
            since: owner.since,
            permits: owner.permits,
            views: owner.views,
            // A call that was granted, and has not gone on yet, does not wait.
            wait: owner.waiter.as_deref().filter(|waiter| !waiter.granted).map(SeenWait::of),
        }
    }
    fn develop(&self, around: &Around, now: Time) -> OwnerDump {
        let wait = self.wait.as_ref().zip(self.blocked_by(around));
        OwnerDump {
            id: self.id,
            name: self.name.as_deref().map(str::to_owned),
            state: self.state(around.holder),
            thread: self.thread.as_ref().map(|thread| {
                let name = thread.name().unwrap_or("unnamed");
                format!("{name} ({:?})", thread.id())
            }),
            entered_at: self.at,
            age: now.since(self.since),
            permits: self.permits,
            views: self.views,
            wait: wait.map(|(wait, blocked_by)| wait.develop(blocked_by, now)),
        }
    }
    fn state(&self, holder: Option<Purpose>) -> OwnerState {
        match self.mode {
            Mode::Entering => OwnerState::Entering,
            Mode::Out | Mode::Running => OwnerState::Running,
            Mode::Yielded => OwnerState::Permitting,
            Mode::Waiting(Purpose::Load) => OwnerState::WaitingToLoad,
            Mode::Waiting(Purpose::Unload) => OwnerState::WaitingToUnload,
            Mode::Holding if holder == Some(Purpose::Unload) => OwnerState::Unloading,
            Mode::Holding => OwnerState::Loading,
            Mode::Draining(_) => OwnerState::Draining,
            Mode::Resuming => OwnerState::Resuming,
        }
    }
    /// Answers why the guard of its mode does not hold.
    fn blocked_by(&self, around: &Around) -> Option<BlockedBy> {
        let by = match self.mode {
            Mode::Out | Mode::Running | Mode::Yielded | Mode::Holding => return None,
            _ if around.holder.is_some() => BlockedBy::Holder,
            Mode::Resuming => BlockedBy::Holder,
            Mode::Entering | Mode::Draining(_) if around.loads => BlockedBy::Loads,
            Mode::Entering | Mode::Draining(_) => BlockedBy::Unloads,
            Mode::Waiting(_) if around.runs => BlockedBy::Running,
            Mode::Waiting(Purpose::Unload) if around.loads => BlockedBy::Loads,
            Mode::Waiting(_) => BlockedBy::Permits,
        };
        Some(by)
    }
}

impl SeenWait {
    fn of(waiter: &Waiter) -> SeenWait {
        SeenWait {
            at: waiter.at,
            since: waiter.since,
            #[cfg(feature = "backtrace")]
            backtrace: waiter.backtrace.clone(),
        }
    }
    fn develop(&self, blocked_by: BlockedBy, now: Time) -> WaitDump {
        #[cfg(feature = "backtrace")]
        let backtrace = self.backtrace.as_ref().map(|backtrace| backtrace.to_string());
        #[cfg(not(feature = "backtrace"))]
        let backtrace = None;
        WaitDump { at: self.at, since: now.since(self.since), blocked_by, backtrace }
    }
}

impl Dump {
    /// Returns the execution with this identifier.
    pub fn owner(&self, id: OwnerId) -> Option<&OwnerDump> {
        self.owners.iter().find(|owner| owner.id == id)
    }
    /// Returns the executions that a [`BlockedBy`] names.
    pub fn blockers(&self, by: BlockedBy) -> impl Iterator<Item = &OwnerDump> {
        self.owners.iter().filter(move |owner| match by {
            BlockedBy::Holder => {
                matches!(owner.state, OwnerState::Loading | OwnerState::Unloading)
            }
            BlockedBy::Running => owner.state == OwnerState::Running,
            BlockedBy::Permits => owner.permits > 0,
            BlockedBy::Loads => {
                matches!(owner.state, OwnerState::WaitingToLoad | OwnerState::Draining)
            }
            BlockedBy::Unloads => owner.state == OwnerState::WaitingToUnload,
        })
    }
}

#[cfg(feature = "serde")]
fn as_text<S: serde::Serializer>(
    at: &&'static Location<'static>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}
