//! The invariants of the interlock, by name: the documentation's promises hold, the counters match the owners, and no
//! owner waits that may go on.
//!
//! Only they, dumps and errors may look at all owners under the lock. The machine in `spec/` knows its owners'
//! programs, which the code does not. `INV-ILK-SHARES` and `INV-ILK-ENTRY` therefore compare an owner's mode with its
//! permit blocks and its waiter here.

use super::modes::{Mode, Owner, Purpose, Queue};
use super::state::State;
use crate::kernel::section::{Invariant, invariants};

pub(super) const ALL: &[Invariant<State>] = invariants! {
    "INV-ILK-ONE-HOLDER" "exactly the holder is in the mode of one that holds" one_holder;
    "INV-ILK-LOCK-DEPTH" "the holder has as many sections open as it has begun, and at least one" lock_depth;
    "INV-ILK-ALONE" "while an owner holds no other has a share, and every other lets its purpose go first" alone;
    "INV-ILK-NO-PERMIT-IN-UNLOAD" "during an unload no permit block is open" no_permit_in_unload;
    "INV-ILK-ONE-GENERATION" "an execution sees one generation, except for unloads by itself or while it waits to unload" one_generation;
    "INV-ILK-SHARES" "an owner that runs is in no permit block, and an owner that permits is in one" shares;
    "INV-ILK-ENTRY" "an owner that waits to hold or for others' turns has a waiter without a grant; a share may come back without a waiter, and a newcomer without one is about to leave" entry;
    "INV-ILK-QUEUED" "a waiting owner is in the queue of its mode, and in no other" queued;
    "INV-ILK-EXACT-WAKE-UP" "no owner waits whose guard holds" exact_wake_up;
    "INV-ILK-TALLY" "the counters are the sums over the owners" tally;
    "INV-ILK-DEADLINES" "the deadlines are those of the waiting tasks" deadlines;
};

impl State {
    fn count(&self, wanted: impl Fn(&Owner) -> bool) -> usize {
        self.all().filter(|owner| wanted(owner)).count()
    }
}

fn one_holder(s: &State) -> bool {
    let mut holding = s.all().filter(|owner| owner.mode == Mode::Holding).map(|owner| owner.id);
    holding.next() == s.holder.map(|holder| holder.owner) && holding.next().is_none()
}

fn lock_depth(s: &State) -> bool {
    s.holder.is_none_or(|holder| holder.depth > 0 && s.find(holder.owner).is_some())
}

fn alone(s: &State) -> bool {
    s.holder.is_none_or(|holder| {
        s.all().filter(|owner| owner.id != holder.owner).all(|other| {
            let stays =
                matches!(other.mode, Mode::Waiting(Purpose::Load) | Mode::Draining(Purpose::Load));
            other.mode != Mode::Running && (holder.purpose == Purpose::Load || !stays)
        })
    })
}

fn no_permit_in_unload(s: &State) -> bool {
    let unloads = s.holder.is_some_and(|holder| holder.purpose == Purpose::Unload);
    !unloads || s.all().all(|owner| owner.permits == 0)
}

fn one_generation(s: &State) -> bool {
    s.all().all(|owner| match (owner.sees, owner.mode) {
        (Some(sees), Mode::Waiting(Purpose::Unload) | Mode::Entering) => sees > s.generation,
        (Some(sees), _) => sees == s.generation,
        (None, mode) => mode != Mode::Running && owner.permits == 0,
    })
}

fn shares(s: &State) -> bool {
    s.all().all(|owner| match owner.mode {
        Mode::Running | Mode::Resuming => owner.permits == 0,
        Mode::Entering => owner.permits == 0 && owner.views == 1,
        Mode::Yielded => owner.permits > 0,
        Mode::Out | Mode::Waiting(_) | Mode::Holding | Mode::Draining(_) => true,
    } && owner.views > 0)
}

fn entry(s: &State) -> bool {
    s.all().all(|owner| match (&owner.waiter, owner.mode) {
        (Some(waiter), mode) => waiter.granted != mode.queue().is_some(),
        // A share may come back without a waiter, and a newcomer that gave up leaves next.
        (None, mode) => mode.queue().is_none() || matches!(mode, Mode::Resuming | Mode::Entering),
    })
}

fn queued(s: &State) -> bool {
    let is_right = |(at, queue): (usize, &Queue)| {
        queue.iter(&s.owners).all(|key| s.owners[key].mode.queue() == Some(at))
    };
    let listed: usize = s.queues.iter().map(|queue| queue.len()).sum();
    s.queues.iter().enumerate().all(is_right)
        && listed == s.owners.iter().filter(|(_, owner)| owner.links.is_linked()).count()
        && listed == s.count(|owner| owner.mode.queue().is_some())
}

fn exact_wake_up(s: &State) -> bool {
    s.all().all(|owner| match owner.mode {
        Mode::Entering => !s.may_enter(),
        Mode::Waiting(purpose) => !s.may_hold(purpose),
        Mode::Draining(purpose) => s.holder.is_some() || s.has_turns(purpose),
        Mode::Resuming => s.holder.is_some(),
        Mode::Out | Mode::Running | Mode::Holding | Mode::Yielded => true,
    })
}

fn tally(s: &State) -> bool {
    s.running == s.count(|owner| owner.mode == Mode::Running)
        && s.entered == s.count(|_| true)
        && s.permitting == s.count(|owner| owner.permits > 0)
}

fn deadlines(s: &State) -> bool {
    let due = |owner: &Owner| Some((owner.waiter.as_ref()?.deadline?, owner.id));
    s.all().filter_map(due).all(|due| s.deadlines.contains(&due))
        && s.deadlines.len() == s.all().filter_map(due).count()
}
