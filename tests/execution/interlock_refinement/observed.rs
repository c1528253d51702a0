//! The observable state of an interlock: the same type for both sides.
//!
//! In the machine, an owner that gives up keeps its entry until its share is back, so that no owner unloads in
//! between. In the code the entry goes at once, because the share comes back in the critical section in which the
//! holder releases. So [`view`] hides those entries of the machine.

use crate::interlock_refinement::machine::{InLine, Machine};
use cabrank::execution::interlock::{self as real, Dump, OwnerState};
use cabrank_spec::interlock::script::Op;
use cabrank_spec::interlock::state::{self as spec, Accepts, Entry, Mode, Purpose, Sleep};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// The state that is compared after each step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    generation: u64,
    /// The machine's number of the owner.
    owners: BTreeMap<spec::OwnerId, Owner>,
}

#[derive(Debug, PartialEq, Eq)]
struct Owner {
    state: OwnerState,
    shares: u32,
    permits: u32,
    /// The requests that it accepts: newcomers, loads, unloads.
    accepts: Option<[bool; 3]>,
    parent: Option<spec::OwnerId>,
    waiting: Option<Duration>,
    blocked_by: Vec<spec::OwnerId>,
}

/// The machine's numbers of the code's owners.
pub(crate) type Names = HashMap<real::OwnerId, spec::OwnerId>;

pub(crate) fn of_the_real(dump: &Dump, names: &Names) -> Observed {
    let owners = dump.owners.iter().map(|o| {
        let mut blocked_by: Vec<_> = o.blocked_by.iter().map(|id| names[id]).collect();
        blocked_by.sort_unstable();
        let owner = Owner {
            state: o.state,
            shares: o.shares,
            permits: o.permits,
            accepts: o.accepts.map(|a| [a.share, a.load, a.unload]),
            // Of a parent that has ended, the code knows only its name.
            parent: o.parent.and_then(|id| names.get(&id).copied()),
            waiting: o.waiting,
            blocked_by,
        };
        (names[&o.id], owner)
    });
    Observed { generation: dump.generation, owners: owners.collect() }
}

/// Observes the machine. `queued` holds since when each owner waits.
pub(crate) fn of_the_machine(
    machine: &Machine,
    queued: impl Fn(spec::OwnerId) -> Option<Duration>,
) -> Observed {
    let s = &view(machine);
    let all = 0..s.owners.len();
    let owners = all.filter_map(|o| Some((o, owner(machine, s, o, queued(o))?)));
    Observed { generation: s.generation.into(), owners: owners.collect() }
}

/// Returns the machine's state without the entries of owners that have given up.
fn view(machine: &Machine) -> spec::Interlock {
    let mut s = machine.program.state.clone();
    for owner in &mut s.owners {
        if let Some(Sleep::GivenUp(_)) = owner.sleeps {
            owner.entry = owner.frames.last().and_then(|frame| frame.entry);
        }
    }
    s
}

fn owner(
    machine: &Machine,
    s: &spec::Interlock,
    o: spec::OwnerId,
    waiting: Option<Duration>,
) -> Option<Owner> {
    let state = state(machine, o)?;
    let runs = s.mode(o) == Mode::Running;
    // In the line, a request accepts all but newcomers.
    let request = matches!(machine.in_line(o), Some(InLine::Request(_)));
    let lets_in = |entry: Entry| {
        [Accepts::SHARE, Accepts::LOAD, Accepts::UNLOAD].map(|a| entry.accepts.includes(a))
    };
    Some(Owner {
        state,
        shares: if runs { s.owners[o].shares.into() } else { 0 },
        permits: permits(machine, o),
        accepts: if request { Some([false, true, true]) } else { s.owners[o].entry.map(lets_in) },
        parent: machine.program.world.scripts[o].parent,
        waiting,
        blocked_by: blocked_by(machine, s, o),
    })
}

/// Returns the state of an owner, or `None` if it is outside and idle.
fn state(machine: &Machine, o: spec::OwnerId) -> Option<OwnerState> {
    let s = &machine.program.state;
    if machine.lost.contains(&o) {
        return Some(OwnerState::Forfeited);
    }
    if let Some(what) = machine.in_line(o) {
        return Some(match what {
            InLine::Newcomer => OwnerState::Entering,
            InLine::Request(Purpose::Unload) => OwnerState::WaitingToUnload,
            InLine::Request(_) => OwnerState::WaitingToLoad,
        });
    }
    Some(match s.mode(o) {
        _ if machine.is_coming(o) && machine.program.is_at(o, Op::Enter) => OwnerState::Entering,
        _ if machine.is_coming(o) => OwnerState::Resuming,
        Mode::Out => return None,
        Mode::Running if machine.declared.contains(&o) => OwnerState::WaitingForChildren,
        Mode::Running => OwnerState::Running,
        Mode::Waiting if s.owners[o].sleeps == Some(Sleep::For(Purpose::Unload)) => {
            OwnerState::WaitingToUnload
        }
        Mode::Waiting => OwnerState::WaitingToLoad,
        Mode::Holding if s.holder == Some((o, Purpose::Unload)) => OwnerState::Unloading,
        Mode::Holding => OwnerState::Loading,
        Mode::Yielded => OwnerState::Permitting,
        Mode::Draining => OwnerState::Draining,
        Mode::Resuming => OwnerState::Resuming,
    })
}

/// Returns its permit blocks: one for each frame, except the frame of a wait.
fn permits(machine: &Machine, o: spec::OwnerId) -> u32 {
    let owner = &machine.program.state.owners[o];
    let frames = owner.frames.len() - usize::from(owner.sleeps.is_some());
    frames.try_into().expect("a few")
}

/// Returns the visible owners for which it waits; in the line, also those in front of it.
fn blocked_by(machine: &Machine, s: &spec::Interlock, o: spec::OwnerId) -> Vec<spec::OwnerId> {
    let world = &machine.program.world;
    let mut found = match machine.in_line(o) {
        Some(InLine::Newcomer) => {
            let before = machine.line.iter().take_while(|(owner, _)| *owner != o);
            let requests = before.filter(|(_, what)| *what != InLine::Newcomer);
            let line: Vec<_> = requests.map(|(owner, _)| *owner).collect();
            [s.waits_for(world, o), line].concat()
        }
        // A request is blocked by the owners that would block it if it were made now.
        Some(InLine::Request(p)) => s.x_blockers(o, p).collect(),
        None => s.waits_for(world, o),
    };
    found.retain(|&q| state(machine, q).is_some());
    found.sort_unstable();
    found.dedup();
    found
}
