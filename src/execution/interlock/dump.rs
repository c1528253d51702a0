//! A dump: all owners at one moment, their waits, and which owner blocks which.
//!
//! A [`Picture`] is a plain copy taken under the lock. `develop` works out the rest without the lock.

use super::modes::{Accepts, Mode, Owner, Purpose};
use super::state::State;
use super::vitals::{Context, OwnerId};
use crate::clock::Time;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Picture {
    now: Time,
    generation: u64,
    holder: Option<Purpose>,
    owners: Vec<Seen>,
}

#[derive(Clone, Debug)]
struct Seen {
    id: OwnerId,
    name: Option<Arc<str>>,
    parent: Option<OwnerId>,
    mode: Mode,
    declared: bool,
    awaits: bool,
    /// The owner whose wait stops this one: one thread is in both.
    stuck: Option<OwnerId>,
    ticket: u64,
    shares: u32,
    permits: u32,
    entry: Option<Accepts>,
    since: Time,
    queued_at: Time,
}

impl Picture {
    pub(super) fn of(state: &State) -> Picture {
        let owners = state.owners.iter().filter_map(|(_, owner)| Seen::of(owner, state));
        Picture {
            now: state.clock.now(),
            generation: state.generation,
            holder: state.holder.map(|holder| holder.purpose),
            owners: owners.collect(),
        }
    }

    pub(super) fn with_stuck(mut self, stuck: &[OwnerId], on: OwnerId) -> Picture {
        for owner in self.owners.iter_mut().filter(|owner| stuck.contains(&owner.id)) {
            owner.stuck = Some(on);
        }
        self
    }

    /// Works out which owner blocks which.
    pub(super) fn develop(self) -> Dump {
        let unloads_go = self.owners.iter().all(|owner| !owner.rejects_unload());
        let blocks = |q: &Seen, o: &Seen| q.id != o.id && q.blocks(o, unloads_go);
        let by = |o: &Seen| -> Vec<OwnerId> {
            self.owners.iter().filter(|q| blocks(q, o)).map(|q| q.id).collect()
        };
        let blocked_by_it = |o: &Seen| -> Vec<OwnerId> {
            self.owners.iter().filter(|q| blocks(o, q)).map(|q| q.id).collect()
        };
        let owners = self.owners.iter().map(|o| OwnerDump {
            id: o.id,
            name: o.name.as_deref().map(str::to_owned),
            state: o.state(self.holder),
            does: o.does(self.holder),
            shares: o.shares,
            permits: o.permits,
            accepts: o.entry,
            parent: o.parent,
            age: self.now.since(o.since),
            waiting: o.mode.is_queued().then(|| self.now.since(o.queued_at)),
            blocked_by: by(o),
            blocking: blocked_by_it(o),
        });
        Dump { generation: self.generation, owners: owners.collect() }
    }
}

impl Seen {
    fn of(owner: &Owner, state: &State) -> Option<Seen> {
        let context = owner.vitals.context();
        let known = state.slow && owner.epoch == state.epoch;
        let mode = match known {
            true => owner.mode,
            false if matches!(context, Context::OUT | Context::LOST) => Mode::Out,
            false => Mode::Running,
        };
        if mode == Mode::Out {
            return None;
        }
        let id = owner.id();
        let entering = mode.is_queued() && context == Context::OUT;
        Some(Seen {
            id,
            name: owner.name.as_ref().filter(|name| name.0 == id).map(|name| name.1.clone()),
            parent: owner.parent.filter(|parent| parent.of == id).map(|parent| parent.id),
            mode,
            declared: known && owner.declared > 0,
            awaits: known && owner.awaits(),
            stuck: None,
            ticket: owner.ticket,
            shares: if mode == Mode::Running { context.shares.max(1) } else { 0 },
            permits: if known { owner.permits } else { 0 },
            entry: owner.entry.filter(|_| known),
            since: if entering { owner.queued_at } else { owner.vitals.since() },
            queued_at: owner.queued_at,
        })
    }

    fn rejects_share(&self) -> bool {
        self.entry.is_some_and(|entry| !entry.share)
    }
    fn rejects_unload(&self) -> bool {
        self.entry.is_some_and(|entry| !entry.unload)
    }
    /// Returns true if this owner blocks `o`. `unloads_go`: no entry rejects unloads.
    fn blocks(&self, o: &Seen, unloads_go: bool) -> bool {
        let holds = self.mode == Mode::Holding;
        let runs = self.mode == Mode::Running;
        if o.stuck == Some(self.id) {
            return true;
        }
        match o.mode {
            Mode::Entering => {
                let later = matches!(self.mode, Mode::Waiting { upgrading: false, .. })
                    && self.ticket > o.ticket;
                holds || self.rejects_share() && !later
            }
            Mode::Arriving | Mode::Resuming { .. } => holds,
            Mode::Waiting { purpose: Purpose::Load, .. } => holds || runs,
            Mode::Waiting { purpose: Purpose::Unload, .. } => {
                holds || runs || self.rejects_unload()
            }
            Mode::Draining(after) => match self.mode {
                Mode::Waiting { purpose: Purpose::Load, upgrading } => upgrading,
                Mode::Waiting { purpose: Purpose::Unload, upgrading } => {
                    upgrading && after == Purpose::Unload && unloads_go
                }
                _ => holds,
            },
            Mode::Running | Mode::Yielded => {
                let lives = self.mode != Mode::Forfeited;
                (o.declared || o.awaits) && lives && self.parent == Some(o.id)
            }
            Mode::Out | Mode::Holding | Mode::Forfeited => false,
        }
    }

    fn state(&self, holder: Option<Purpose>) -> OwnerState {
        match self.mode {
            Mode::Running if self.declared => OwnerState::WaitingForChildren,
            Mode::Out | Mode::Running => OwnerState::Running,
            Mode::Entering | Mode::Arriving => OwnerState::Entering,
            Mode::Waiting { purpose: Purpose::Load, .. } => OwnerState::WaitingToLoad,
            Mode::Waiting { purpose: Purpose::Unload, .. } => OwnerState::WaitingToUnload,
            Mode::Holding if holder == Some(Purpose::Unload) => OwnerState::Unloading,
            Mode::Holding => OwnerState::Loading,
            Mode::Yielded => OwnerState::Permitting,
            Mode::Resuming { .. } => OwnerState::Resuming,
            Mode::Draining(_) => OwnerState::Draining,
            Mode::Forfeited => OwnerState::Forfeited,
        }
    }
    fn does(&self, holder: Option<Purpose>) -> &'static str {
        match self.state(holder) {
            _ if self.stuck.is_some() => "is on the thread that waits",
            OwnerState::Entering => "waits to enter",
            OwnerState::Running => "runs",
            OwnerState::WaitingForChildren => "keeps its share and waits for its children",
            OwnerState::WaitingToLoad => "waits to load until no other execution has a share",
            OwnerState::WaitingToUnload => "waits to unload until no other execution runs or loads",
            OwnerState::Loading => "loads",
            OwnerState::Unloading => "unloads",
            OwnerState::Permitting if self.awaits => "permits loads and waits for its children",
            OwnerState::Permitting => "permits loads",
            OwnerState::Resuming => "waits for its share",
            OwnerState::Draining => "lets others load first",
            OwnerState::Forfeited => "was forfeited",
        }
    }
}

/// The interlock at one moment. Its `Display` is a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Dump {
    /// How many unloads there were.
    pub generation: u64,
    /// The owners that run, or wait to.
    pub owners: Vec<OwnerDump>,
}

/// One owner of a [`Dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct OwnerDump {
    /// Its identifier.
    pub id: OwnerId,
    /// Its [name](super::Running::set_name), if it has one.
    pub name: Option<String>,
    /// Its state.
    pub state: OwnerState,
    /// Its state in words.
    pub does: &'static str,
    /// Its shares in the innermost frame.
    pub shares: u32,
    /// The permit blocks that it is in.
    pub permits: u32,
    /// The entry: what it lets go first.
    pub accepts: Option<Accepts>,
    /// Its parent, if it is a child.
    pub parent: Option<OwnerId>,
    /// How long its execution has lasted.
    pub age: Duration,
    /// How long it has waited.
    pub waiting: Option<Duration>,
    /// The owners that keep it from going on.
    pub blocked_by: Vec<OwnerId>,
    /// The owners that it keeps from going on.
    pub blocking: Vec<OwnerId>,
}

/// The state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum OwnerState {
    /// It waits to enter.
    Entering,
    /// It has a share.
    Running,
    /// It has a share, and has [declared](super::Running::waiting) a wait for its children.
    WaitingForChildren,
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
    /// It waits for its share, after a permit block or an abandoned request.
    Resuming,
    /// It has loaded or unloaded, and lets others do so first.
    Draining,
    /// It was [forfeited](super::Interlock::forfeit).
    Forfeited,
}

impl Dump {
    /// Returns the owner with this identifier.
    pub fn owner(&self, id: OwnerId) -> Option<&OwnerDump> {
        self.owners.iter().find(|owner| owner.id == id)
    }

    /// Returns a deadlock, if there is one: a circle of owners, each blocked by the next.
    ///
    /// Other waits inside an execution's body are unknown to the interlock, and do not count.
    pub fn cycle(&self) -> Option<Vec<OwnerId>> {
        let mut search = Search::of(self);
        (0..self.owners.len()).find_map(|first| search.circle(first, None))
    }
    /// Returns the circle that this owner is in.
    pub(super) fn cycle_from(&self, first: OwnerId) -> Option<Vec<OwnerId>> {
        let mut search = Search::of(self);
        let first = *search.places.get(&first)?;
        search.circle(first, Some(first))
    }
}

/// A search for circles that visits each owner and each pair once.
struct Search<'a> {
    dump: &'a Dump,
    places: HashMap<OwnerId, usize>,
    seen: Vec<bool>,
}

impl<'a> Search<'a> {
    fn of(dump: &'a Dump) -> Self {
        let places = dump.owners.iter().enumerate().map(|(at, owner)| (owner.id, at)).collect();
        Search { dump, places, seen: vec![false; dump.owners.len()] }
    }
    /// Returns a circle reachable from `first`, closed by `end` if given.
    fn circle(&mut self, first: usize, end: Option<usize>) -> Option<Vec<OwnerId>> {
        if std::mem::replace(&mut self.seen[first], true) {
            return None;
        }
        // Each owner on the path, with the number of its blockers already visited.
        let (mut path, mut on_path) = (vec![(first, 0)], HashSet::from([first]));
        while let Some((at, next)) = path.last_mut() {
            let Some(blocker) = self.dump.owners[*at].blocked_by.get(*next) else {
                on_path.remove(at);
                path.pop();
                continue;
            };
            *next += 1;
            let Some(&blocker) = self.places.get(blocker) else { continue };
            if on_path.contains(&blocker) && end.is_none_or(|end| end == blocker) {
                let circle = path.iter().map(|(at, _)| *at).skip_while(|at| *at != blocker);
                return Some(circle.map(|at| self.dump.owners[at].id).collect());
            }
            if !std::mem::replace(&mut self.seen[blocker], true) {
                on_path.insert(blocker);
                path.push((blocker, 0));
            }
        }
        None
    }
}

impl OwnerDump {
    pub(super) fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} “{name}”", self.id),
            None => self.id.to_string(),
        }
    }
}

/// How many owners a line names at most.
const SHOWN: usize = 8;

struct Age(Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.as_millis()),
            _ => write!(f, "{:.1} s", self.0.as_secs_f64()),
        }
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places: HashMap<_, _> = self.owners.iter().map(|owner| (owner.id, owner)).collect();
        let title = |id: &OwnerId| places.get(id).map_or(id.to_string(), |owner| owner.title());
        let titles =
            |ids: &[OwnerId], between| ids.iter().map(title).collect::<Vec<_>>().join(between);
        let shown = |ids: &[OwnerId]| match ids.len().saturating_sub(SHOWN) {
            0 => titles(ids, ", "),
            more => format!("{} and {more} more", titles(&ids[..SHOWN], ", ")),
        };
        let (number, generation) = (self.owners.len(), self.generation);
        writeln!(f, "load interlock: {number} executions, generation {generation}")?;
        if let Some(mut cycle) = self.cycle() {
            cycle.push(cycle[0]);
            writeln!(f, "deadlock: {}", titles(&cycle, " waits for "))?;
        }
        for owner in &self.owners {
            write!(f, "  {} {}", owner.title(), owner.does)?;
            if owner.shares > 1 {
                write!(f, ", {} times", owner.shares)?;
            }
            write!(f, "\n      began {} ago", Age(owner.age))?;
            if let Some(waiting) = owner.waiting {
                write!(f, "; has waited {}", Age(waiting))?;
            }
            if let Some(parent) = &owner.parent {
                write!(f, "; child of {}", title(parent))?;
            }
            if let Some(accepts) = owner.accepts {
                let mut first = vec!["loads"];
                first.extend(accepts.unload.then_some("unloads"));
                first.extend(accepts.share.then_some("newcomers"));
                write!(f, "; lets {} go first", first.join(", "))?;
            }
            if !owner.blocked_by.is_empty() {
                write!(f, "; blocked by {}", shown(&owner.blocked_by))?;
            }
            if !owner.blocking.is_empty() {
                write!(f, "; blocking {}", shown(&owner.blocking))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
