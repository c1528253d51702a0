//! The invariants of the interlock, by name: the documentation's promises hold, the counters match the
//! owners, and no owner waits whose guard holds.
//!
//! Builds with debug assertions check them at the end of every critical section. Only they and dumps may look
//! at all owners under the lock.
//!
//! The machine in `spec/` knows its owners' programs, which the code does not. So two of its invariants have
//! other names here: `INV-ILK-OUT-IS-EMPTY`, `INV-ILK-SHARE-GIVEN-UP` and `INV-ILK-FRAMES` keep
//! INV-ILK-SHARES, `INV-ILK-ONE-HOLDER` keeps INV-ILK-LOCK-DEPTH. The models and tests that cite a PROP-ILK-…
//! show that property.

use super::modes::{Accepts, Mode, Owner, Purpose, Queue, Tally};
use super::state::State;
use super::vitals::{Context, OwnerId};
use crate::collections::slab_list::Key;
use crate::section::{Invariant, invariants};
use std::collections::HashMap;

pub(super) const ALL: &[Invariant<State>] = invariants! {
    "INV-ILK-ONE-HOLDER" "at most one owner holds, and the holder says so (INV-ILK-LOCK-DEPTH)" one_holder;
    "INV-ILK-ALONE" "while an owner holds no other has a share, and every other entry accepts its purpose" alone;
    "INV-ILK-NO-PERMIT-IN-UNLOAD" "during an unload no permit block is open" no_permit_in_unload;
    "INV-ILK-SEES-ONE-WORLD" "an execution sees one generation, except for unloads by itself or while it waits to unload" sees_one_world;
    "INV-ILK-OUT-IS-EMPTY" "an owner that is out has no frame, no entry and no share (INV-ILK-SHARES)" out_is_empty;
    "INV-ILK-SHARE-GIVEN-UP" "an owner that waits for a share or to hold, or permits, has no share (INV-ILK-SHARES, PROP-ILK-USE-UNDER-SHARE)" share_given_up;
    "INV-ILK-FRAMES" "the level of an owner matches its permit blocks and sections, and a running owner has its shares (INV-ILK-SHARES)" frames;
    "INV-ILK-ENTRY" "an owner has an entry exactly if it waits to hold, drains, or is in a permit block" entry;
    "INV-ILK-QUEUED" "a waiting owner is in the queue of its mode, and in no other" queued;
    "INV-ILK-EXACT-WAKE-UP" "no owner waits whose guard holds" exact_wake_up;
    "INV-ILK-WATCHED" "only a share that comes back has watchers" watched;
    "INV-ILK-TALLY" "the counters are the sums over the owners" tally;
    "INV-ILK-DEADLOCK-REPORTED" "no owner keeps its share and waits for a child that waits for that share" deadlock_reported;
    "INV-ILK-FAST-IS-EMPTY" "while the word counts, no owner holds, waits, or has an entry" fast_is_empty;
};

type Belongs = fn(Mode) -> bool;

impl State {
    /// The owners whose fields are valid now.
    fn known(&self) -> impl Iterator<Item = (Key, &Owner)> + Clone {
        let owners = self.owners.iter().map(|(index, owner)| (Key::new(index), owner));
        owners.filter(|(_, owner)| self.slow && owner.epoch == self.epoch)
    }
    /// Each queue, with the modes that belong into it.
    fn queues(&self) -> [(&Queue, Belongs); 8] {
        use Purpose::{Load, Unload};
        let waiting = |queue, belongs: Belongs| (queue, belongs);
        [
            waiting(&self.newcomers, |mode| mode == Mode::Entering),
            waiting(&self.returning, |mode| matches!(mode, Mode::Arriving | Mode::Resuming { .. })),
            waiting(&self.upgrading[0], |mode| {
                mode == Mode::Waiting { purpose: Load, upgrading: true }
            }),
            waiting(&self.upgrading[1], |mode| {
                mode == Mode::Waiting { purpose: Unload, upgrading: true }
            }),
            waiting(&self.pending[0], |mode| {
                mode == Mode::Waiting { purpose: Load, upgrading: false }
            }),
            waiting(&self.pending[1], |mode| {
                mode == Mode::Waiting { purpose: Unload, upgrading: false }
            }),
            waiting(&self.draining[0], |mode| mode == Mode::Draining(Load)),
            waiting(&self.draining[1], |mode| mode == Mode::Draining(Unload)),
        ]
    }
}

fn one_holder(s: &State) -> bool {
    let holding: Vec<_> = s.known().filter(|(_, o)| o.mode == Mode::Holding).collect();
    match s.holder {
        None => holding.is_empty(),
        Some(holder) => {
            holder.depth > 0 && holding.len() == 1 && holding.iter().all(|(k, _)| *k == holder.key)
        }
    }
}

fn alone(s: &State) -> bool {
    s.holder.is_none_or(|holder| {
        let mut others = s.known().filter(|(key, _)| *key != holder.key);
        s.anonymous == 0
            && others.all(|(_, o)| {
                o.mode != Mode::Running
                    && (holder.purpose == Purpose::Load || o.tally().reject_unload == 0)
            })
    })
}

fn no_permit_in_unload(s: &State) -> bool {
    s.holder.is_none_or(|holder| {
        holder.purpose == Purpose::Load || s.known().all(|(_, owner)| owner.permits == 0)
    })
}

fn sees_one_world(s: &State) -> bool {
    s.known().all(|(_, o)| match (o.sees, o.mode) {
        (Some(sees), _) => sees == s.generation,
        (None, mode) => !matches!(mode, Mode::Running | Mode::Yielded),
    })
}

fn out_is_empty(s: &State) -> bool {
    s.known().all(|(_, o)| {
        let is_out = matches!(o.mode, Mode::Out | Mode::Entering | Mode::Forfeited);
        let has_nothing = o.permits == 0 && o.declared == 0 && !o.awaits() && o.entry.is_none();
        let has_left = matches!(o.vitals.context(), Context::OUT | Context::LOST);
        !is_out || has_nothing && o.sees.is_none() && has_left
    })
}

fn share_given_up(s: &State) -> bool {
    s.known().all(|(_, o)| match o.mode {
        Mode::Entering => o.vitals.context() == Context::OUT,
        mode => !(mode.is_queued() || mode == Mode::Yielded) || o.vitals.context().shares == 0,
    })
}

/// One extra level is valid: the guard raises it before it gives its share up under the lock, and lowers it
/// after the share is back.
fn frames(s: &State) -> bool {
    s.known().all(|(key, o)| {
        let Some(Context { level, shares }) = o.vitals.context().inside() else { return true };
        let sections = s.holder.filter(|holder| holder.key == key).map_or(0, |holder| holder.depth);
        let gave_up = matches!(
            o.mode,
            Mode::Waiting { .. } | Mode::Draining(_) | Mode::Resuming { ends_permit: false }
        );
        let known = 1 + o.permits + sections + u32::from(gave_up);
        let runs = o.mode == Mode::Running && o.permits == 0;
        o.awaits.is_sorted_by(|outer, inner| outer < inner)
            && o.awaits.last().is_none_or(|block| *block <= o.permits)
            && (level == known && (!runs || shares > 0) || level == known + 1 && shares == 0)
    })
}

fn entry(s: &State) -> bool {
    s.known().all(|(_, o)| {
        let (waits, lets_unload) = match o.mode {
            Mode::Waiting { purpose, upgrading } => {
                (true, !upgrading || purpose == Purpose::Unload)
            }
            Mode::Draining(purpose) => (true, purpose == Purpose::Unload),
            _ => (false, false),
        };
        match o.entry {
            None => !waits && o.permits == 0 && o.mode != Mode::Yielded,
            Some(Accepts { share, load, unload }) => {
                (waits || o.permits > 0)
                    && load
                    && share != waits
                    && unload == (lets_unload && o.permits == 0)
            }
        }
    })
}

fn queued(s: &State) -> bool {
    let mut listed = 0;
    let right = s.queues().into_iter().all(|(queue, belongs)| {
        listed += queue.len();
        let mut keys = queue.iter(&s.owners);
        keys.all(|key| {
            let owner = s.owner(key);
            s.slow && owner.epoch == s.epoch && belongs(owner.mode) && owner.outcome.is_none()
        })
    });
    let linked = s.owners.iter().filter(|(_, owner)| owner.links.is_linked()).count();
    let waiting = s.known().filter(|(_, owner)| owner.mode.is_queued()).count();
    right && listed == linked && listed == waiting
}

fn exact_wake_up(s: &State) -> bool {
    let free = s.holder.is_none();
    let empty = free && s.running() == 0;
    let unloads = empty && s.tally.reject_unload == 0;
    let turns = |purpose: Purpose| !free || s.has_turns(purpose);
    s.known().all(|(_, owner)| match owner.mode {
        Mode::Entering => owner.ticket >= s.newcomers_before(),
        Mode::Arriving | Mode::Resuming { .. } => !free,
        Mode::Waiting { purpose: Purpose::Load, .. } => !empty,
        Mode::Waiting { purpose: Purpose::Unload, .. } => !unloads,
        Mode::Draining(purpose) => turns(purpose),
        Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded | Mode::Forfeited => true,
    })
}

fn watched(s: &State) -> bool {
    s.owners
        .iter()
        .all(|(_, owner)| owner.watchers.is_empty() || matches!(owner.mode, Mode::Resuming { .. }))
}

fn tally(s: &State) -> bool {
    let sum = s.known().map(|(_, o)| o.tally()).fold(Tally::default(), Tally::plus);
    let forfeited = s.known().filter(|(_, o)| o.mode == Mode::Forfeited).count();
    !s.slow || sum == s.tally && forfeited == s.forfeited
}

/// Searches by the guards, not by the counter that a begin of a wait maintains.
fn deadlock_reported(s: &State) -> bool {
    let mut waits_for: Vec<_> =
        s.known().filter(|(_, o)| o.declared > 0).map(|(_, o)| o.id()).collect();
    let mut children = HashMap::<OwnerId, Vec<&Owner>>::new();
    if !waits_for.is_empty() {
        for (_, child) in s.known() {
            if let Some(parent) = child.parent.filter(|parent| parent.of == child.id()) {
                children.entry(parent.id).or_default().push(child);
            }
        }
    }
    // An owner that lets others go first waits for them, and they wait for every share.
    let is_stuck = |child: &Owner| match child.mode {
        Mode::Waiting { upgrading, .. } => upgrading,
        Mode::Draining(purpose) => s.has_turns(purpose),
        _ => false,
    };
    while let Some(parent) = waits_for.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if is_stuck(child) {
                return false;
            }
            waits_for.extend(child.awaits().then(|| child.id()));
        }
    }
    s.tally.blocked == 0
}

fn fast_is_empty(s: &State) -> bool {
    s.slow || s.holder.is_none() && !s.is_any_queued() && s.forfeited == 0
}
