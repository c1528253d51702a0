//! A dump: all executions at one moment, their waits, and what blocks each.
//!
//! It is copied under the lock in O(n): owners that are blocked by the same others refer to one list of them. Its text
//! is written without the lock.

use super::caller::OwnerId;
use super::modes::{Mode, Owner, Purpose};
use super::state::State;
use crate::execution::named::named;
use crate::kernel::clock::Time;
use std::backtrace::Backtrace;
use std::fmt::{self, Formatter};
use std::panic::Location;
use std::sync::Arc;
use std::thread::Thread;
use std::time::Duration;

/// How many executions a list in the text names at most.
const SHOWN: usize = 8;

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
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))]
    pub id: OwnerId,
    /// Its [name](super::Running::set_name), if it has one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_name"))]
    pub name: Option<Arc<str>>,
    /// Its state.
    pub state: OwnerState,
    /// Its thread. Absent for a task. Its serialized form is its name, or its identifier.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_thread"))]
    pub thread: Option<Thread>,
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
    pub waited: Duration,
    /// The executions that keep it from going on: see [`Dump::blockers`].
    pub blocked_by: BlockedBy,
    /// The backtrace of the wait (feature `backtrace`).
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_optional_text"))]
    pub backtrace: Option<Arc<Backtrace>>,
}

#[cfg(feature = "serde")]
fn as_text<S: serde::Serializer>(value: impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&value)
}

#[cfg(feature = "serde")]
fn as_optional_text<S: serde::Serializer>(
    value: &Option<impl fmt::Display>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.collect_str(value),
        None => to.serialize_none(),
    }
}

#[cfg(feature = "serde")]
fn as_name<S: serde::Serializer>(name: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    serde::Serialize::serialize(&name.as_deref(), to)
}

#[cfg(feature = "serde")]
fn as_thread<S: serde::Serializer>(thread: &Option<Thread>, to: S) -> Result<S::Ok, S::Error> {
    let text =
        |thread: &Thread| thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned);
    serde::Serialize::serialize(&thread.as_ref().map(text), to)
}

named! {
    /// The state of an execution.
    pub enum OwnerState {
        Entering "waits to enter",
        Running "runs",
        WaitingToLoad "waits to load",
        WaitingToUnload "waits to unload",
        Loading "loads",
        Unloading "unloads",
        Permitting "permits loads",
        Resuming "waits for its share",
        Draining "lets others load first",
    }
}

named! {
    /// The executions that keep another from going on.
    pub enum BlockedBy {
        Holder "the one that holds",
        Running "all that run",
        Permits "all in permit blocks",
        Loads "all that load first",
        Unloads "all that wait to unload",
    }
}

impl OwnerDump {
    fn of(owner: &Owner, state: &State, now: Time) -> OwnerDump {
        // A call that was granted, and has not gone on yet, does not wait.
        let waiter = owner.waiter.as_deref().filter(|waiter| !waiter.granted);
        let wait = waiter.zip(BlockedBy::of(owner.mode, state)).map(|(waiter, blocked_by)| {
            let (at, waited) = (waiter.at, now.since(waiter.since));
            WaitDump { at, waited, blocked_by, backtrace: waiter.backtrace.clone() }
        });
        OwnerDump {
            id: owner.id,
            name: owner.name.clone(),
            state: OwnerState::of(owner.mode, state),
            thread: owner.thread.clone(),
            entered_at: owner.at,
            age: now.since(owner.since),
            permits: owner.permits,
            views: owner.views,
            wait,
        }
    }
}

impl OwnerState {
    fn of(mode: Mode, state: &State) -> OwnerState {
        let unloads = state.holder.is_some_and(|holder| holder.purpose == Purpose::Unload);
        match mode {
            Mode::Entering => OwnerState::Entering,
            Mode::Out | Mode::Running => OwnerState::Running,
            Mode::Yielded => OwnerState::Permitting,
            Mode::Waiting(Purpose::Load) => OwnerState::WaitingToLoad,
            Mode::Waiting(Purpose::Unload) => OwnerState::WaitingToUnload,
            Mode::Holding if unloads => OwnerState::Unloading,
            Mode::Holding => OwnerState::Loading,
            Mode::Draining(_) => OwnerState::Draining,
            Mode::Resuming => OwnerState::Resuming,
        }
    }
}

impl BlockedBy {
    /// Returns which owners keep an owner in this mode from going on.
    fn of(mode: Mode, state: &State) -> Option<BlockedBy> {
        let loads =
            state.any(Mode::Waiting(Purpose::Load)) || state.any(Mode::Draining(Purpose::Load));
        Some(match mode {
            Mode::Out | Mode::Running | Mode::Yielded | Mode::Holding => return None,
            Mode::Resuming => BlockedBy::Holder,
            _ if state.holder.is_some() => BlockedBy::Holder,
            Mode::Entering | Mode::Draining(_) if loads => BlockedBy::Loads,
            Mode::Entering | Mode::Draining(_) => BlockedBy::Unloads,
            Mode::Waiting(_) if state.running > 0 => BlockedBy::Running,
            Mode::Waiting(Purpose::Unload) if loads => BlockedBy::Loads,
            Mode::Waiting(_) => BlockedBy::Permits,
        })
    }
}

impl Dump {
    pub(super) fn of(state: &State, now: Time) -> Dump {
        let owners = state.all().map(|owner| OwnerDump::of(owner, state, now)).collect();
        Dump { generation: state.generation, owners }
    }
    /// Returns the execution with this identifier.
    pub fn owner(&self, id: OwnerId) -> Option<&OwnerDump> {
        self.owners.iter().find(|owner| owner.id == id)
    }
    /// Returns the executions that a [`BlockedBy`] names.
    pub fn blockers(&self, by: BlockedBy) -> impl Iterator<Item = &OwnerDump> {
        use OwnerState::{Draining, Loading, Running, Unloading, WaitingToLoad, WaitingToUnload};
        self.owners.iter().filter(move |owner| match by {
            BlockedBy::Holder => matches!(owner.state, Loading | Unloading),
            BlockedBy::Running => owner.state == Running,
            BlockedBy::Permits => owner.permits > 0,
            BlockedBy::Loads => matches!(owner.state, WaitingToLoad | Draining),
            BlockedBy::Unloads => owner.state == WaitingToUnload,
        })
    }
    /// Writes what an execution waits for, and which others block it.
    pub(super) fn write_wait(&self, id: OwnerId, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(owner) = self.owner(id) else { return write!(f, "{id} has ended") };
        write!(f, "{} {}", Title(owner), owner.state)?;
        let Some(wait) = &owner.wait else { return Ok(()) };
        write!(f, ", blocked by {}: ", wait.blocked_by)?;
        self.write_blockers(wait.blocked_by, f)
    }
    fn write_blockers(&self, by: BlockedBy, f: &mut Formatter<'_>) -> fmt::Result {
        let mut blockers = self.blockers(by);
        for (at, owner) in blockers.by_ref().take(SHOWN).enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { ", " }, Title(owner))?;
        }
        match blockers.count() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Title<'a>(&'a OwnerDump);

impl fmt::Display for Title<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0.name {
            Some(name) => write!(f, "{} “{name}”", self.0.id),
            None => write!(f, "{}", self.0.id),
        }
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (number, generation) = (self.owners.len(), self.generation);
        let s = if number == 1 { "" } else { "s" };
        writeln!(f, "load interlock: {number} execution{s}, generation {generation}")?;
        for owner in &self.owners {
            write!(f, "  {} {}: ", Title(owner), owner.state)?;
            match &owner.thread {
                Some(it) => write!(f, "thread {} ({:?})", it.name().unwrap_or("unnamed"), it.id())?,
                None => f.write_str("a task")?,
            }
            write!(f, ", entered {:.1?} ago at {}", owner.age, owner.entered_at)?;
            if let Some(wait) = &owner.wait {
                write!(f, "\n      has waited {:.1?} at {}", wait.waited, wait.at)?;
                write!(f, ", blocked by {}", wait.blocked_by)?;
                if let Some(backtrace) = &wait.backtrace {
                    write!(f, "\n{backtrace}")?;
                }
            }
            writeln!(f)?;
        }
        // Each list of blockers stands here once, however many wait for it.
        use BlockedBy::{Holder, Loads, Permits, Running, Unloads};
        for by in [Holder, Running, Permits, Loads, Unloads] {
            let mut waits = self.owners.iter().filter_map(|owner| owner.wait.as_ref());
            if waits.any(|wait| wait.blocked_by == by) {
                write!(f, "  {by}: ")?;
                self.write_blockers(by, f)?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
