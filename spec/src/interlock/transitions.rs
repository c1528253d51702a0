//! The table of transitions, row by row. Each function is one critical section.
//!
//! A row reads `mode -- operation [guard] --> next mode`.

use crate::interlock::guards::{after, while_waiting};
use crate::interlock::rules::Defect::{PermitErased, StarvedRequest, UpgradeDeadlock};
use crate::interlock::rules::Planted::*;
use crate::interlock::script::World;
use crate::interlock::state::{
    Accepts, Entry, Event, Frame, Interlock, Owner, OwnerId, Purpose, Refusal, Sleep,
};

/// Every exclusive request.
const ALL: Accepts = Accepts::LOAD.and(Accepts::UNLOAD).and(Accepts::UNNAMED);

impl Interlock {
    // Out -- enter [N, or C for the child of a live execution] --> Running 1
    // Running n -- enter --> Running n + 1
    // Yielded -- enter [C] --> Running, on top of the frame
    // An owner that would wait for itself is refused instead.
    pub(crate) fn enter(&mut self, o: OwnerId) -> Result<(), Refusal> {
        if !self.may_enter(o) {
            return Err(Refusal::Deadlock);
        }
        if !self.in_execution(o) {
            self.owners[o].sees = self.generation;
        }
        self.owners[o].shares += 1;
        Ok(())
    }

    // Running n -- leave --> Running n - 1
    // Running 1 -- leave --> Out, wake
    pub(crate) fn leave(&mut self, o: OwnerId) {
        // A planted fault may have lost it.
        self.owners[o].shares = self.owners[o].shares.saturating_sub(1);
        if self.owners[o].shares == 0 && !self.planted(LeaveWithoutWake) {
            self.wake();
        }
    }

    // Holding p d -- acquire --> Holding p d + 1
    // Running n, Out, Yielded -- acquire p [X] --> Holding p 1, shares kept
    // the same [not X] --> Waiting p, shares saved, wake; or refused, and the state stays as it was
    pub(crate) fn acquire(
        &mut self,
        world: &World,
        o: OwnerId,
        p: Purpose,
        no_wait: bool,
    ) -> Result<(), Refusal> {
        if let Some((_, held)) = self.holder.filter(|_| self.holds(o)) {
            // A load tolerates open permit blocks, which X forbids for an unload.
            if p == Purpose::Unload && held != p && !self.planted(UnloadInsideLoad) {
                return Err(Refusal::InsideLoad);
            }
            self.depth += 1;
            return Ok(());
        }
        let is_child = p == Purpose::Unload && self.has_live_ancestor(o);
        if is_child && !self.original(UpgradeDeadlock) && !self.planted(ChildUnloads) {
            return Err(Refusal::Child);
        }
        self.owners[o].asked = self.generation;
        if self.x(o, p) {
            self.hold(o, p);
            return Ok(());
        }
        if no_wait {
            return Err(Refusal::WouldBlock);
        }
        let before = self.clone();
        self.give_up_shares(o, self.while_waiting(o, p), Some(p));
        self.owners[o].sleeps = Some(Sleep::For(p));
        if self.is_deadlock(world, o, true) {
            *self = before;
            return Err(Refusal::Deadlock);
        }
        self.emit(Event::Waits);
        if !self.planted(WaitWithoutWake) {
            self.wake();
        }
        Ok(())
    }

    // Waiting p -- [X] --> Holding p 1, shares and entry restored
    pub(crate) fn granted(&mut self, o: OwnerId, p: Purpose) {
        self.take_back(o);
        if p == Purpose::Unload {
            // A request to unload gives up the generation that the owner saw.
            self.owners[o].sees = self.generation;
        }
        self.hold(o, p);
    }

    // Holding Unload -- unload --> generation + 1, unless another owner has unloaded since the request
    pub(crate) fn unload(&mut self, o: OwnerId) {
        if self.owners[o].asked != self.generation && !self.planted(NoSecondLook) {
            self.emit(Event::Coalesced);
        } else {
            self.generation += 1;
            self.emit(Event::Reloaded);
        }
        self.owners[o].sees = self.generation;
    }

    // Holding p d -- release --> Holding p d - 1
    // Holding p 1 -- release [not E(after p)] --> Running or Out, wake
    // Holding p 1 -- release [E(after p)] --> Draining, wake
    pub(crate) fn release(&mut self, o: OwnerId) {
        self.depth = self.depth.saturating_sub(1);
        let Some((_, p)) = self.holder.filter(|_| self.depth == 0 || self.planted(ReleaseAtOnce))
        else {
            return;
        };
        self.holder = None;
        if self.e(after(p)) {
            // This wait closes no cycle: no other owner has shares yet, and all entries accept that request.
            self.give_up_shares(o, after(p), None);
            self.owners[o].sleeps = Some(Sleep::Draining(p));
            self.emit(Event::Drains);
        }
        if !self.planted(ReleaseWithoutWake) {
            self.wake();
        }
    }

    // Holding p 1 -- drop --> Running or Out, wake
    pub(crate) fn drop_lock(&mut self, o: OwnerId) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 && self.holds(o) {
            self.holder = None;
            self.wake();
        }
    }

    // Draining -- [nobody holds, not E] --> Running or Out, wake
    pub(crate) fn drained(&mut self, o: OwnerId, p: Purpose) {
        self.take_back(o);
        if p == Purpose::Unload {
            self.owners[o].sees = self.generation;
        }
        if !self.planted(DrainedWithoutWake) {
            self.wake();
        }
    }

    // Running n, Yielded -- permit --> Yielded, shares saved, wake
    pub(crate) fn permit(&mut self, o: OwnerId) {
        let unload = self.planted(PermitAcceptsUnload);
        let loads = Accepts::SHARE.and(Accepts::LOAD);
        let accepts = if unload { loads.and(Accepts::UNLOAD) } else { loads };
        self.give_up_shares(o, accepts, None);
        if !self.planted(PermitWithoutWake) {
            self.wake();
        }
    }

    // Yielded -- end [C] --> Running n, or the outer Yielded; the outer entry restored
    pub(crate) fn end(&mut self, o: OwnerId) {
        self.take_back(o);
    }

    // Waiting p, Draining -- the time limit expires, or the wait is cancelled --> Resuming, wake
    pub(crate) fn give_up(&mut self, o: OwnerId, p: Purpose) {
        let owner = &mut self.owners[o];
        owner.sleeps = Some(Sleep::GivenUp(p));
        if let Some(entry) = &mut owner.entry {
            entry.waits_for = None;
        }
        if !self.planted(GivingUpWithoutWake) {
            self.wake();
        }
    }

    // Resuming -- [C] --> Running n, Out or Yielded, as before the request, wake
    pub(crate) fn resumed(&mut self, o: OwnerId, p: Purpose) {
        self.take_back(o);
        if p == Purpose::Unload {
            self.owners[o].sees = self.generation;
        }
        if !self.planted(GivingUpWithoutWake) {
            self.wake();
        }
    }

    // any mode -- declared wait for children --> the same mode, waiting; refused if that closes a cycle
    pub(crate) fn wait_on(
        &mut self,
        world: &World,
        o: OwnerId,
        children: Vec<OwnerId>,
    ) -> Result<(), Refusal> {
        // While an owner holds the lock, no other owner can end a permit block, and the end of a permit block
        // cannot be refused.
        let may_wait = self.original(UpgradeDeadlock) || self.planted(HolderWaits);
        let waits = children.iter().any(|&child| !world.is_over(self, child));
        if self.holds(o) && waits && !may_wait {
            return Err(Refusal::Holding);
        }
        self.owners[o].waits_on = children;
        if self.is_deadlock(world, o, false) {
            self.owners[o].waits_on.clear();
            return Err(Refusal::Deadlock);
        }
        Ok(())
    }

    // dead, in any mode -- forfeit --> Out, wake
    pub(crate) fn forfeit(&mut self, o: OwnerId) {
        if self.holds(o) {
            (self.holder, self.depth) = (None, 0);
        }
        let owner = &mut self.owners[o];
        *owner = Owner {
            parent: owner.parent,
            at: owner.at,
            started: true,
            dead: true,
            refused: owner.refused,
            ..Owner::default()
        };
        if !self.planted(ForfeitWithoutWake) {
            self.wake();
        }
    }

    fn hold(&mut self, o: OwnerId, p: Purpose) {
        (self.holder, self.depth) = (Some((o, p)), 1);
        self.emit(Event::Holds);
    }

    /// Wakes every sleeping owner, which checks its guard again.
    fn wake(&mut self) {
        self.emit(Event::Woke);
    }

    /// Returns whether an owner that has just begun to wait waits for itself.
    pub(crate) fn is_deadlock(&self, world: &World, o: OwnerId, is_request: bool) -> bool {
        if self.original(UpgradeDeadlock) || self.planted(DeadlockUnreported) {
            false
        } else if self.planted(AllBlockedAtRequest) {
            is_request && self.all_are_blocked(world)
        } else {
            self.waits_for_itself(world, o)
        }
    }

    /// Returns the requests that an owner accepts when it begins to wait.
    fn while_waiting(&self, o: OwnerId, p: Purpose) -> Accepts {
        let owner = &self.owners[o];
        let mut accepts = match owner.shares {
            // It has no share to lose, so it accepts all. An outer entry still restricts that.
            0 if self.planted(PendingRefuses) => Accepts::NO_REQUEST,
            0 => ALL,
            _ => while_waiting(p),
        };
        if p == Purpose::Load && self.planted(LoadAcceptsUnload) {
            accepts = accepts.and(Accepts::UNLOAD);
        }
        if p == Purpose::Unload && self.planted(UnloadRefusesLoad) {
            accepts = Accepts(accepts.0 & !Accepts::LOAD.0);
        }
        if p == Purpose::Unload && self.planted(UnloadRefusesUnload) {
            accepts = Accepts(accepts.0 & !Accepts::UNLOAD.0);
        }
        accepts
    }

    /// Gives up the owner's shares and publishes the requests that it accepts meanwhile, never more than its earlier
    /// entry does.
    fn give_up_shares(&mut self, o: OwnerId, accepts: Accepts, waits_for: Option<Purpose>) {
        let keeps = waits_for.is_some() && self.planted(WaitKeepsShares);
        let (erases, unpublished) = (self.original(PermitErased), self.original(StarvedRequest));
        let widens = self.planted(FrameWidens);
        let owner = &mut self.owners[o];
        if owner.shares == 0 && (if owner.entry.is_some() { erases } else { unpublished }) {
            // Rails leaves the published entry as it is during the wait, and erases it afterwards.
            owner.frames.push(Frame { shares: 0, entry: None });
            return;
        }
        let (shares, entry) = (owner.shares, owner.entry);
        owner.frames.push(Frame { shares, entry });
        owner.shares = if keeps { shares } else { 0 };
        let outer = entry.filter(|_| !widens).map_or(ALL, |outer| outer.accepts);
        // Rails forgets the purpose of the wait where another entry is underneath.
        let waits_for = waits_for.filter(|_| !erases || entry.is_none());
        owner.entry = Some(Entry { accepts: accepts.within(outer), waits_for });
    }

    /// Restores the owner's shares and its earlier entry.
    fn take_back(&mut self, o: OwnerId) {
        let loses = self.planted(FrameLosesShares);
        let owner = &mut self.owners[o];
        owner.sleeps = None;
        if let Some(frame) = owner.frames.pop() {
            owner.shares = if loses { 0 } else { frame.shares };
            owner.entry = frame.entry;
        }
    }
}
