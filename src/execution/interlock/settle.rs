//! Grants: the last step of each critical section finds the owners that can go on.
//!
//! Whether an owner may go on follows from counters alone. So `settle` looks at each queue once, and touches only the
//! owners that go on, in this order:
//! 1. loads, one after the other, before all owners resume together (PROP-ILK-LOADS-FIRST);
//! 2. owners that wait only for the holder: they resume (PROP-ILK-RESUMES);
//! 3. draining owners, which let others go first: after a load the waiting loads, after an unload also the waiting
//!    unloads that may begin;
//! 4. unloads;
//! 5. newcomers (PROP-ILK-NEWCOMERS-WAIT).
//!
//! # Every waiter has its turn
//! - Only owners that have a share now can still request a load. A draining owner makes no request, and newcomers wait
//!   for steps 1 to 3. So the loads that go first are finitely many (PROP-ILK-REQUESTS-END, PROP-ILK-ENTERS).
//! - A waiting unload keeps newcomers out, unless a permit block is open. So it begins once the present executions and
//!   permit blocks have ended. Executions with permit blocks that overlap for ever delay it for ever: see the module's
//!   limits (PROP-ILK-UNLOADS-END).
//!
//! # One pass is enough
//! Steps 2 and 3 only give shares, so no load or unload can begin that could not before. They empty the queues that
//! step 5 looks at. A load or unload that begins ends the pass.

use super::modes::Mode;
use super::modes::Purpose::{self, Load, Unload};
use super::state::State;
use crate::kernel::effects::{Effects, OnWaiter};

impl State {
    #[inline]
    pub(super) fn settle(&mut self, fx: &mut Effects<OnWaiter>) {
        if !self.is_quiet() && self.holder.is_none() {
            self.grant_turns(fx);
        }
    }
    fn grant_turns(&mut self, fx: &mut Effects<OnWaiter>) {
        if self.grant_hold(Load, fx) {
            return;
        }
        self.admit(Mode::Resuming, fx);
        for purpose in [Load, Unload] {
            if !self.has_turns(purpose) {
                self.admit(Mode::Draining(purpose), fx);
            }
        }
        if self.grant_hold(Unload, fx) {
            return;
        }
        if self.may_enter() {
            self.admit(Mode::Entering, fx);
        }
    }
    /// Lets the oldest request hold, if it may. Returns whether one does.
    fn grant_hold(&mut self, purpose: Purpose, fx: &mut Effects<OnWaiter>) -> bool {
        let queue = Mode::Waiting(purpose).queue().expect("the mode of a queue");
        let Some(key) = self.queues[queue].front().filter(|_| self.may_hold(purpose)) else {
            return false;
        };
        let id = self.owners[key].id;
        self.unlink(id);
        self.hold(id, purpose);
        self.grant(id, fx);
        true
    }
    /// Lets all owners of a queue go on.
    fn admit(&mut self, mode: Mode, fx: &mut Effects<OnWaiter>) {
        let queue = mode.queue().expect("the mode of a queue");
        while let Some(key) = self.queues[queue].pop_front(&mut self.owners) {
            let id = self.owners[key].id;
            self.rest(id);
            self.grant(id, fx);
        }
    }
}
