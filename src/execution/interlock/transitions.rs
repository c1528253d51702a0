//! The steps of an owner between its modes.
//!
//! A guard compares counters and queue lengths, so each step is O(1). The grants to waiting owners follow in
//! [`settle`](super::settle), at the end of the same critical section.

use super::caller::{Caller, OwnerId};
use super::modes::Purpose::{self, Load, Unload};
use super::modes::{Mode, Step, Why};
use super::state::{Holder, State};
use crate::kernel::clock::Time;
use crate::kernel::effects::{Effects, OnWaiter};
use std::thread::ThreadId;

pub(super) const BRANCH: Why = "a concurrent branch of the same execution waits, holds or permits";
pub(super) const IN_LOAD: Why = "an unload inside a load or another unload never begins";
pub(super) const NESTED: Why = "an unload waits until the executions around it, or concurrent with it in the same task, have ended";
pub(super) const NO_PERMIT: Why = "an execution that loads or unloads cannot let others load";
pub(super) const MISSING: Why =
    "the share of this task is missing, and its thread may be needed to bring it back";
pub(super) const OTHER_THREAD: Why =
    "this execution belongs to another thread, which may wait for this one";

impl State {
    /// Returns whether a newcomer may enter.
    ///
    /// While a permit block is open no unload can begin, and the block may wait for the newcomer. So the newcomer
    /// then passes the waiting unloads. In Rails it does not (`rails-child-behind-unload`).
    ///
    /// Draining owners need no look here: without a holder they wait only for an owner that keeps newcomers out.
    pub(super) fn may_enter(&self) -> bool {
        self.is_quiet()
            || self.holder.is_none()
                && !self.any(Mode::Waiting(Load))
                && (!self.any(Mode::Waiting(Unload)) || self.permitting > 0)
    }
    /// Returns whether a load or an unload may begin. An owner that waits or permits loads has no share meanwhile.
    pub(super) fn may_hold(&self, purpose: Purpose) -> bool {
        let alone = self.holder.is_none() && self.running == 0;
        alone && (purpose == Load || !self.keeps_unloads_out())
    }
    /// Returns whether some owner without a share still uses the loaded code when its wait ends.
    ///
    /// Owners that resume, or drain after a load, are such owners, too. They need no look here: the former wait only
    /// while another one holds, the latter only beside a load that waits.
    pub(super) fn keeps_unloads_out(&self) -> bool {
        self.permitting > 0 || self.any(Mode::Waiting(Load))
    }
    /// Returns whether an owner waits that goes before the owners that drain after this purpose.
    pub(super) fn has_turns(&self, after: Purpose) -> bool {
        let unloads = self.any(Mode::Waiting(Unload)) && !self.keeps_unloads_out();
        self.any(Mode::Waiting(Load)) || after == Unload && unloads
    }

    /// Adds an owner, in mode Running or Entering.
    #[inline]
    pub(super) fn enter(&mut self, caller: &Caller, now: Time, inside: bool) -> (OwnerId, Step) {
        let may = self.may_enter();
        let id = self.add(caller, now, inside);
        if may {
            return (id, Step::Done);
        }
        self.owner_mut(id).sees = None;
        self.enqueue(id, Mode::Entering);
        (id, Step::Wait)
    }
    /// A view of this owner ends. The last one takes the owner out.
    #[inline]
    pub(super) fn leave(&mut self, id: OwnerId, fx: &mut Effects<OnWaiter>) {
        let owner = self.owner_mut(id);
        owner.views -= 1;
        if owner.views > 0 {
            return;
        }
        if owner.mode != Mode::Running {
            self.abandon(id, fx);
        }
        self.remove(id);
    }
    /// Cleans up after an execution that ends while it waits to enter, or although a guard or future of it was leaked.
    fn abandon(&mut self, id: OwnerId, fx: &mut Effects<OnWaiter>) {
        if self.owner(id).waiter.is_some() {
            self.end_wait(id, fx);
        }
        self.unlink(id);
        if self.holder.is_some_and(|holder| holder.owner == id) {
            self.let_go(true);
        }
    }

    /// Refuses a request on another thread than the execution's, such as that of a future that has moved.
    pub(super) fn belongs_to(&self, id: OwnerId, thread: ThreadId) -> Result<(), Why> {
        let owner = self.owner(id).thread.as_ref();
        owner.is_none_or(|owner| owner.id() == thread).then_some(()).ok_or(OTHER_THREAD)
    }

    /// Running or Yielded → Holding or Waiting. A load inside a section of the owner only raises the depth.
    ///
    /// `inside_section`: the caller's code runs in the section that the owner holds.
    pub(super) fn acquire(
        &mut self,
        id: OwnerId,
        purpose: Purpose,
        inside_section: bool,
    ) -> Result<Step, Why> {
        let owner = self.owner(id);
        if owner.waiter.is_some() {
            return Err(BRANCH);
        }
        let is_nested = owner.views > 1 || owner.permits > 0 || owner.inside;
        match (owner.mode, &mut self.holder) {
            (Mode::Holding, Some(_)) if purpose == Unload => Err(IN_LOAD),
            (Mode::Holding, Some(holder)) if inside_section => {
                holder.depth += 1;
                Ok(Step::Done)
            }
            (Mode::Running | Mode::Yielded, _) => {
                if purpose == Unload && is_nested {
                    return Err(NESTED);
                }
                self.set_mode(id, Mode::Waiting(purpose));
                if self.may_hold(purpose) {
                    self.hold(id, purpose);
                    return Ok(Step::Done);
                }
                self.enqueue(id, Mode::Waiting(purpose));
                Ok(Step::Wait)
            }
            _ => Err(BRANCH),
        }
    }
    pub(super) fn hold(&mut self, owner: OwnerId, purpose: Purpose) {
        self.set_mode(owner, Mode::Holding);
        self.holder = Some(Holder { owner, purpose, depth: 1 });
    }
    /// Holding → Draining, Running or Yielded. `done`: the section has loaded or unloaded. `drains`: the owner lets
    /// waiting requests go first.
    pub(super) fn release(&mut self, id: OwnerId, done: bool, drains: bool) -> Step {
        let Some(holder) = self.holder.as_mut().filter(|holder| holder.owner == id) else {
            unreachable!("only the holder releases");
        };
        holder.depth -= 1;
        if holder.depth > 0 {
            return Step::Done;
        }
        let purpose = holder.purpose;
        self.let_go(done);
        if drains && self.has_turns(purpose) {
            self.enqueue(id, Mode::Draining(purpose));
            return Step::Wait;
        }
        self.rest(id);
        Step::Done
    }
    fn let_go(&mut self, done: bool) {
        if self.holder.take().is_some_and(|holder| done && holder.purpose == Unload) {
            self.generation += 1;
        }
    }
    /// → Running; or → Yielded, where a concurrent branch is in a permit block.
    pub(super) fn rest(&mut self, id: OwnerId) {
        let permits = self.owner(id).permits;
        self.set_mode(id, if permits > 0 { Mode::Yielded } else { Mode::Running });
    }

    /// Running → Yielded, for a permit block. A second block leaves the mode as it is.
    pub(super) fn permit(&mut self, id: OwnerId) -> Result<Step, Why> {
        let owner = self.owner(id);
        let permits = owner.permits + 1;
        match owner.mode {
            Mode::Running | Mode::Yielded if owner.waiter.is_none() => {
                self.set_permits(id, permits);
                self.set_mode(id, Mode::Yielded);
                Ok(Step::Done)
            }
            Mode::Holding => Err(NO_PERMIT),
            _ => Err(BRANCH),
        }
    }
    /// Yielded → Running or Resuming, if this was its last permit block.
    pub(super) fn end_permit(&mut self, id: OwnerId) -> Step {
        let owner = self.owner(id);
        let (permits, mode) = (owner.permits - 1, owner.mode);
        self.set_permits(id, permits);
        if permits > 0 || mode != Mode::Yielded {
            return Step::Done;
        }
        self.take_back(id)
    }
    /// → Running; or → Resuming, while another owner holds.
    fn take_back(&mut self, id: OwnerId) -> Step {
        if self.holder.is_none() || self.owner(id).permits > 0 {
            self.rest(id);
            return Step::Done;
        }
        self.enqueue(id, Mode::Resuming);
        Step::Wait
    }
    /// Returns whether the owner has to wait for its share, after the wait for which it released the share was dropped.
    ///
    /// A thread does not wait for the share of a task.
    pub(super) fn regain(&self, id: OwnerId, is_task: bool) -> Result<Step, Why> {
        let owner = self.owner(id);
        if owner.mode != Mode::Resuming || owner.waiter.is_some() {
            return Ok(Step::Done);
        }
        if is_task || owner.thread.is_some() { Ok(Step::Wait) } else { Err(MISSING) }
    }

    /// Ends a wait that was dropped, or whose time limit has passed.
    ///
    /// The owner gets its share back: at once, or once the present holder releases. A hold that was granted meanwhile
    /// is released, because its section never begins. A newcomer [leaves](Self::leave) next.
    pub(super) fn give_up(&mut self, id: OwnerId, fx: &mut Effects<OnWaiter>) {
        self.end_wait(id, fx);
        match self.owner(id).mode {
            Mode::Holding => {
                let _ = self.release(id, false, false);
            }
            Mode::Waiting(_) | Mode::Draining(_) => {
                self.unlink(id);
                let _ = self.take_back(id);
            }
            _ => {}
        }
    }
}
