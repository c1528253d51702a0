//! The guards, by their names in the table of transitions, and the wait-for relation.

use crate::interlock::rules::Defect::ChildBehindUnload;
use crate::interlock::rules::Planted::*;
use crate::interlock::script::{Op, World};
use crate::interlock::state::{Accepts, Interlock, OwnerId, Purpose, Sleep};

impl Interlock {
    /// Returns guard X: the owner may hold the lock for this purpose. No other owner holds or has shares, and every
    /// other entry accepts the purpose.
    pub fn x(&self, o: OwnerId, p: Purpose) -> bool {
        self.x_blockers(o, p).next().is_none()
    }

    /// Returns the owners that make X false.
    pub fn x_blockers(&self, o: OwnerId, p: Purpose) -> impl Iterator<Item = OwnerId> {
        let blocks = move |&q: &OwnerId| {
            let other = &self.owners[q];
            (self.holds(q) && !self.planted(XWithoutHolder))
                || (other.shares > 0 && !self.planted(XWithoutShares))
                || (other.entry.is_some_and(|entry| !entry.accepts.includes(p.into()))
                    && !self.planted(XWithoutEntries))
        };
        self.others(o).map(|(q, _)| q).filter(blocks)
    }

    /// Returns guard N: a newcomer may enter. No owner holds the lock, and no earlier request waits.
    pub fn n(&self, o: OwnerId) -> bool {
        self.n_blockers(o).next().is_none()
    }

    /// Returns the owners that make N false.
    fn n_blockers(&self, o: OwnerId) -> impl Iterator<Item = OwnerId> {
        let blocks = move |&q: &OwnerId| {
            let entry = self.owners[q].entry;
            (self.holds(q) && !self.planted(NWithoutHolder))
                || (entry.is_some_and(|entry| !entry.accepts.includes(Accepts::SHARE))
                    && !self.planted(NWithoutEntries))
        };
        self.others(o).map(|(q, _)| q).filter(blocks)
    }

    /// Returns guard C: an owner in an execution, or a child of one, may go on. No other owner holds the lock.
    pub fn c(&self, o: OwnerId) -> bool {
        self.other_holder(o).is_none() || self.planted(CWithoutHolder)
    }

    /// Returns guard E: an owner waits for one of these purposes, and every other entry accepts it.
    pub fn e(&self, after: Accepts) -> bool {
        (0..self.owners.len()).any(|w| self.is_eligible(w, after))
    }

    fn is_eligible(&self, w: OwnerId, after: Accepts) -> bool {
        let Some(p) = self.owners[w].entry.and_then(|entry| entry.waits_for) else { return false };
        let mut entries = self.others(w).filter_map(|(_, other)| other.entry);
        !self.planted(ENever)
            && after.includes(p.into())
            && (self.planted(EWithoutOthers) || entries.all(|e| e.accepts.includes(p.into())))
    }

    /// Returns whether the owner may enter. An owner with shares or the lock may; an owner inside a permit block, or a
    /// child, needs C; a newcomer needs N.
    pub fn may_enter(&self, o: OwnerId) -> bool {
        let owner = &self.owners[o];
        if owner.shares > 0 || self.holds(o) {
            true
        } else if self.goes_on(o) {
            self.c(o)
        } else {
            self.n(o)
        }
    }

    /// Returns whether the owner needs only C to enter.
    fn goes_on(&self, o: OwnerId) -> bool {
        self.owners[o].entry.is_some()
            || !self.original(ChildBehindUnload) && self.has_live_ancestor(o)
    }

    /// Returns the owners for which this owner waits, as far as the interlock knows. Each of them must move before it
    /// can. A running owner does not wait.
    pub fn waits_for(&self, world: &World, o: OwnerId) -> Vec<OwnerId> {
        let owner = &self.owners[o];
        let holder = || self.other_holder(o).into_iter();
        match owner.sleeps {
            Some(Sleep::For(p)) => return self.x_blockers(o, p).collect(),
            Some(Sleep::Draining(p)) => {
                let first = (0..self.owners.len()).filter(|&w| self.is_eligible(w, after(p)));
                return holder().chain(first).collect();
            }
            Some(Sleep::GivenUp(_)) => return holder().collect(),
            None => {}
        }
        if !owner.waits_on.is_empty() {
            let children = owner.waits_on.iter().copied();
            return children.filter(|&child| !world.is_over(self, child)).collect();
        }
        match world.next(self, o) {
            Some(Op::Enter) if self.may_enter(o) => vec![],
            Some(Op::Enter) if self.goes_on(o) => holder().collect(),
            Some(Op::Enter) => self.n_blockers(o).collect(),
            Some(Op::End) => holder().collect(),
            _ => vec![],
        }
    }

    /// Returns whether the owner waits for itself, directly or through other owners.
    ///
    /// An owner waits for all of its blockers, so each cycle is a deadlock, and each deadlock contains a cycle. Only an
    /// owner that begins to wait can close a cycle, so a check at that moment is enough.
    pub fn waits_for_itself(&self, world: &World, o: OwnerId) -> bool {
        let mut seen = vec![false; self.owners.len()];
        let mut next = self.waits_for(world, o);
        while let Some(q) = next.pop() {
            if q == o {
                return true;
            }
            if !std::mem::replace(&mut seen[q], true) {
                next.extend(self.waits_for(world, q));
            }
        }
        false
    }

    /// A weaker check, for a planted fault: no existing owner can move.
    pub(crate) fn all_are_blocked(&self, world: &World) -> bool {
        let exists = |&o: &OwnerId| self.owners[o].started && !world.is_over(self, o);
        (0..self.owners.len()).filter(exists).all(|o| !self.waits_for(world, o).is_empty())
    }
}

/// Returns the requests that an owner accepts while it waits to upgrade.
pub(crate) fn while_waiting(p: Purpose) -> Accepts {
    match p {
        Purpose::Load => Accepts::LOAD,
        Purpose::Unload => Accepts::LOAD.and(Accepts::UNLOAD),
        Purpose::Unnamed => Accepts::NO_REQUEST,
    }
}

/// Returns the requests that go first when an owner has released the lock.
pub fn after(p: Purpose) -> Accepts {
    while_waiting(p)
}
