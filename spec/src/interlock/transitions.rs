//! The table of transitions, row by row. Each function is one critical section.
//!
//! A row reads `mode -- operation [guard] --> next mode`.

use crate::interlock::rules::Defect::{LeakedShare, PermitErased, StarvedRequest, UpgradeDeadlock};
use crate::interlock::rules::Planted::{self, *};
use crate::interlock::state::{
    ALL, Accepts, Entry, Event, Frame, Interlock, LOAD, Owner, OwnerId, Purpose, Refusal, SHARE,
    Sleep, UNLOAD,
};

impl Interlock {
    // Out, Yielded -- enter [N] --> Running 1
    // Running n, Holding -- enter --> one share more
    pub(crate) fn enter(&mut self, o: OwnerId) {
        if !self.owners[o].in_execution() {
            self.owners[o].sees = self.generation;
        }
        self.owners[o].shares += 1;
    }

    // Running n -- leave --> Running n - 1
    // Running 1 -- leave --> Out or Yielded, wake
    // Resuming -- leave --> the same, without waiting for the share
    pub(crate) fn leave(&mut self, o: OwnerId) {
        let owner = &mut self.owners[o];
        // A planted fault may have lost the shares.
        if let (Some(Sleep::GivenUp { .. }), Some(frame)) = (owner.sleeps, owner.frames.last_mut())
        {
            frame.shares = frame.shares.saturating_sub(1);
            if frame.shares == 0 {
                self.take_back(o);
            }
        } else {
            owner.shares = owner.shares.saturating_sub(1);
        }
        if self.owners[o].shares == 0 {
            self.wake_unless(LeaveWithoutWake);
        }
    }

    // Running n, Out, Yielded -- acquire p [X] --> Holding p 1, shares kept
    // the same [not X] --> Waiting p, shares saved, wake
    // Holding p d -- acquire a load --> Holding p d + 1
    // Running n > 1, Yielded, Holding -- acquire an unload --> refused
    pub(crate) fn acquire(&mut self, o: OwnerId, p: Purpose) -> Result<(), Refusal> {
        if p == Purpose::Unload && self.waits_for_itself(o) {
            return Err(Refusal::Deadlock);
        }
        if self.holds(o) {
            self.depth += 1;
            return Ok(());
        }
        let unnamed = p == Purpose::Unnamed && !self.original(UpgradeDeadlock);
        let p = if unnamed { Purpose::Load } else { p };
        if self.x(o, p) {
            self.hold(o, p);
            return Ok(());
        }
        self.give_up_shares(o, self.while_waiting(o, p), Some(p));
        self.owners[o].sleeps = Some(Sleep::For(p));
        self.events.push(Event::Waits);
        self.wake_unless(WaitWithoutWake);
        Ok(())
    }

    // Waiting p -- [X] --> Holding p 1, shares and entry restored
    pub(crate) fn granted(&mut self, o: OwnerId, p: Purpose) {
        self.take_back(o);
        self.hold(o, p);
    }

    // Holding Unload -- unload --> generation + 1
    pub(crate) fn unload(&mut self, o: OwnerId) {
        self.generation += 1;
        self.owners[o].sees = self.generation;
    }

    // Holding p d -- release --> Holding p d - 1
    // Holding p 1 -- release [not E(after p)] --> Running, Yielded or Out, wake
    // Holding p 1 -- release [E(after p)] --> Draining, wake
    // Holding p 1 -- drop --> Running, Yielded or Out, wake
    pub(crate) fn release(&mut self, o: OwnerId, drains: bool) {
        self.depth = self.depth.saturating_sub(1);
        let freed = |_: &_| self.depth == 0 || self.planted(ReleaseAtOnce);
        let Some((_, p)) = self.holder.filter(freed) else { return };
        self.holder = None;
        if drains && self.e(p.lets_go_first()) {
            self.give_up_shares(o, p.lets_go_first(), None);
            self.owners[o].sleeps = Some(Sleep::Draining(p));
            self.events.push(Event::Drains);
        }
        self.wake_unless(ReleaseWithoutWake);
    }

    // Running n, Yielded -- permit --> Yielded, shares saved, wake
    // Holding -- permit --> refused
    pub(crate) fn permit(&mut self, o: OwnerId) -> Result<(), Refusal> {
        if self.holds(o) && !self.original(UpgradeDeadlock) && !self.planted(PermitInHold) {
            return Err(Refusal::Deadlock);
        }
        let unloads = if self.planted(PermitAcceptsUnload) { UNLOAD } else { 0 };
        self.give_up_shares(o, SHARE | LOAD | unloads, None);
        self.wake_unless(PermitWithoutWake);
        Ok(())
    }

    // Yielded -- end [C, or in an outer permit block] --> Running n, or the outer Yielded
    // Yielded -- end [not C] --> Resuming
    pub(crate) fn end(&mut self, o: OwnerId) {
        let needs = self.owners[o].frames.last().is_some_and(|frame| frame.shares > 0);
        if self.c(o) || !needs && !self.original(PermitErased) {
            self.take_back(o);
        } else {
            // Newcomers no longer pass.
            let accepts = LOAD | if self.planted(ResumingAcceptsUnload) { UNLOAD } else { 0 };
            self.owners[o].sleeps = Some(Sleep::Ending);
            self.owners[o].entry = Some(Entry { accepts, waits_for: None });
            self.events.push(Event::Waits);
        }
    }

    // Draining -- [C, not E] --> Running, Yielded or Out, wake
    // Resuming -- [C] --> Running, wake
    pub(crate) fn resumed(&mut self, o: OwnerId) {
        self.take_back(o);
        self.wake_unless(ResumedWithoutWake);
    }

    // Waiting p, Draining, Resuming -- the time limit expires, or the wait is dropped --> Resuming, wake
    // the same without a share --> Out or Yielded, wake
    // Out or Yielded, and wants to enter -- the same --> Out or Yielded
    pub(crate) fn give_up(&mut self, o: OwnerId) {
        let loses = self.planted(LimitLosesShares);
        let owner = &mut self.owners[o];
        let (Some(sleep), Some(frame)) = (owner.sleeps, owner.frames.last_mut()) else { return };
        if loses {
            frame.shares = 0;
        }
        if frame.shares == 0 {
            self.take_back(o);
        } else {
            owner.sleeps = Some(Sleep::GivenUp { unloads: sleep.unloads() });
            if let Some(entry) = &mut owner.entry {
                entry.waits_for = None;
            }
        }
        self.wake_unless(GivingUpWithoutWake);
    }

    // any mode -- the thread panics, and drops its guards without waiting --> Out, wake
    pub(crate) fn unwind(&mut self, o: OwnerId) {
        if self.original(LeakedShare) {
            return;
        }
        if self.holds(o) {
            (self.holder, self.depth) = (None, 0);
        }
        let Owner { at, started, refused, .. } = self.owners[o];
        self.owners[o] = Owner { at, started, refused, ..Owner::default() };
        self.wake_unless(UnwindWithoutWake);
    }

    fn hold(&mut self, o: OwnerId, p: Purpose) {
        (self.holder, self.depth) = (Some((o, p)), 1);
        self.events.push(Event::Holds);
    }

    /// Wakes every sleeping owner, which checks its guard again.
    fn wake_unless(&mut self, fault: Planted) {
        if !self.planted(fault) {
            self.events.push(Event::Woke);
        }
    }

    /// Returns the requests that an owner accepts when it begins to wait.
    fn while_waiting(&self, o: OwnerId, p: Purpose) -> Accepts {
        // An owner without a share has none to lose, so it accepts all. An outer entry still restricts that.
        let mut accepts = if self.owners[o].shares == 0 { ALL } else { p.lets_go_first() };
        match p {
            Purpose::Load if self.planted(LoadAcceptsUnload) => accepts |= UNLOAD,
            Purpose::Unload if self.planted(UnloadRefusesLoad) => accepts &= !LOAD,
            Purpose::Unload if self.planted(UnloadRefusesUnload) => accepts &= !UNLOAD,
            _ => {}
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
        let outer = entry.filter(|_| !widens).map_or(ALL, |outer| outer.accepts) | SHARE;
        // Rails forgets the purpose of the wait where another entry is underneath.
        let waits_for = waits_for.filter(|_| !erases || entry.is_none());
        owner.entry = Some(Entry { accepts: accepts & outer, waits_for });
    }

    /// Restores the owner's shares and its earlier entry.
    fn take_back(&mut self, o: OwnerId) {
        let loses = self.planted(FrameLosesShares);
        let generation = self.generation;
        let owner = &mut self.owners[o];
        if owner.sleeps.take().is_some_and(Sleep::unloads) {
            owner.sees = generation;
        }
        if let Some(frame) = owner.frames.pop() {
            owner.shares = if loses { 0 } else { frame.shares };
            owner.entry = frame.entry;
        }
    }
}
