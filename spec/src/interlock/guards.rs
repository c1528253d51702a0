//! The guards, by their names in the table of transitions.

use crate::interlock::rules::Defect::{ChildBehindUnload, UpgradeDeadlock};
use crate::interlock::rules::Planted::*;
use crate::interlock::state::{Accepts, Interlock, OwnerId, Purpose, SHARE, Sleep};

impl Interlock {
    /// Returns guard X: the owner may hold the lock for this purpose. No other owner holds or has shares, and every
    /// other entry accepts the purpose.
    pub fn x(&self, o: OwnerId, p: Purpose) -> bool {
        self.others(o).all(|(q, other)| {
            (!self.holds(q) || self.planted(XWithoutHolder))
                && (other.shares == 0 || self.planted(XWithoutShares))
                && (other.accepts(p.request()) || self.planted(XWithoutEntries))
        })
    }

    /// Returns guard N: a newcomer may enter. No owner holds the lock, and every other entry accepts newcomers. While a
    /// permit block is open, a waiting unload accepts them, too.
    pub fn n(&self, o: OwnerId) -> bool {
        self.others(o).all(|(q, other)| {
            (!self.holds(q) || self.planted(NWithoutHolder))
                && (other.accepts(SHARE) || self.is_passed(q) || self.planted(NWithoutEntries))
        })
    }

    /// Returns whether newcomers pass an owner that waits for the lock.
    ///
    /// An open permit block keeps an unload out, and the program in the block may wait for a newcomer.
    fn is_passed(&self, q: OwnerId) -> bool {
        let permits = || self.owners.iter().any(|owner| owner.permits() > 0);
        match self.owners[q].sleeps {
            Some(Sleep::For(Purpose::Unload)) if self.planted(PassesWithoutPermit) => true,
            Some(Sleep::For(Purpose::Unload)) => {
                permits() && !self.original(ChildBehindUnload) && !self.planted(NeverPasses)
            }
            Some(Sleep::For(_)) => self.planted(PassesLoads) && permits(),
            _ => false,
        }
    }

    /// Returns guard C: an owner in an execution may go on. No other owner holds the lock.
    pub fn c(&self, o: OwnerId) -> bool {
        self.holder.is_none_or(|(holder, _)| holder == o) || self.planted(CWithoutHolder)
    }

    /// Returns guard E: an owner waits for one of these purposes, and every other entry accepts it.
    pub fn e(&self, after: Accepts) -> bool {
        let can_go = |w: OwnerId| {
            let Some(p) = self.owners[w].entry.and_then(|entry| entry.waits_for) else {
                return false;
            };
            let accepted = || self.others(w).all(|(_, other)| other.accepts(p.request()));
            after & p.request() != 0 && (self.planted(EWithoutOthers) || accepted())
        };
        !self.planted(ENever) && (0..self.owners.len()).any(can_go)
    }

    /// Returns whether the owner may enter. An owner with shares or the lock may; any other is a newcomer, also inside
    /// a permit block of its own.
    pub fn may_enter(&self, o: OwnerId) -> bool {
        let owner = &self.owners[o];
        if owner.shares > 0 || self.holds(o) {
            true
        } else if owner.entry.is_some() && self.original(ChildBehindUnload) {
            self.c(o)
        } else {
            self.n(o)
        }
    }

    /// Returns whether an unload would wait for its own owner: for an outer execution, a permit block, or a load.
    pub(crate) fn waits_for_itself(&self, o: OwnerId) -> bool {
        let owner = &self.owners[o];
        !self.original(UpgradeDeadlock)
            && (owner.shares > 1 && !self.planted(UnloadInView)
                || owner.permits() > 0 && !self.planted(UnloadInPermit)
                || self.holds(o) && !self.planted(UnloadInHold))
    }
}
