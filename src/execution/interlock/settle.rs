//! Who can go on: the last step of every critical section.
//!
//! The guards are comparisons of counters, so each queue is asked once, and only those who go are
//! touched. The order among those who could go is the ruling:
//! 1. loads of owners that have given up their share for it: one after the other, before anybody
//!    resumes, so that all resume together;
//! 2. who waits for the holder alone: ends of permit blocks, children of live executions;
//! 3. who let others of its kind go first, once none of them waits any more;
//! 4. unloads of owners that have given up their share, then loads and unloads of owners that had
//!    none: these never keep anybody from resuming, or a stream of them would do so for ever;
//! 5. newcomers, when no entry keeps them out.
//!
//! One pass is enough. Steps 2 and 3 only give shares, which takes from step 1 and 4 and gives to
//! nobody; step 3 withdraws entries, which steps 4 and 5 then see; whatever grants ends the pass.

use super::dump::Picture;
use super::error::Deadlock;
use super::state::{Mode, Outcome, Purpose, State};
use crate::slab_list::Key;
use std::mem::take;

impl State {
    pub(super) fn settle(&mut self) {
        self.settle_once();
        while self.is_deadlocked() {
            self.break_deadlock();
            self.settle_once();
        }
        self.newest_request = None;
    }

    fn settle_once(&mut self) {
        use Purpose::{Load, Unload};
        if self.holder.is_some() {
            return;
        }
        if self.running() == 0 && self.grant_front(Load, true) {
            return;
        }
        self.admit_all(Mode::Arriving);
        for purpose in [Load, Unload] {
            if !self.has_turns(purpose) {
                self.admit_all(Mode::Draining(purpose));
            }
        }
        if self.running() == 0 {
            let unloads_go = self.tally.reject_unload == 0;
            if unloads_go && self.grant_front(Unload, true)
                || self.grant_front(Load, false)
                || unloads_go && self.grant_front(Unload, false)
            {
                return;
            }
        }
        if self.tally.reject_share == 0 {
            self.admit_all(Mode::Entering);
        }
    }

    /// The oldest request of this kind is granted, if there is one.
    fn grant_front(&mut self, purpose: Purpose, upgrading: bool) -> bool {
        let Some(key) = self.queue(Mode::Waiting { purpose, upgrading }).front() else {
            return false;
        };
        self.unlink(key);
        self.hold(key, purpose, upgrading);
        self.resolve(key, Outcome::Granted);
        true
    }

    /// All of a queue get their share.
    fn admit_all(&mut self, kind: Mode) {
        if self.queue(kind).is_empty() {
            return;
        }
        let mut queue = take(self.queue(kind));
        while let Some(key) = queue.pop_front(&mut self.owners) {
            let ends_permit = self.owner(key).mode == Mode::Resuming { ends_permit: true };
            self.resume(key, ends_permit);
            self.resolve(key, Outcome::Granted);
        }
    }

    /// Whether every owner is blocked: who has a share waits for a child of its own, nobody holds,
    /// nobody is inside a permit block, no child has yet to enter, and somebody waits to hold.
    pub(super) fn is_deadlocked(&self) -> bool {
        self.tally.blocked > 0
            && self.running() == self.tally.blocked
            && self.holder.is_none()
            && self.tally.yielded == 0
            && self.tokens == 0
            && self.somebody_waits_to_hold()
    }
    fn somebody_waits_to_hold(&self) -> bool {
        self.upgrading.iter().chain(&self.pending).any(|queue| !queue.is_empty())
    }

    /// One request is told, and withdrawn: the one that closed the circle, or else the oldest unload,
    /// or else the oldest load.
    fn break_deadlock(&mut self) {
        let queues = [&self.upgrading[1], &self.pending[1], &self.upgrading[0], &self.pending[0]];
        let still_waits = |key: &Key| matches!(self.owner(*key).mode, Mode::Waiting { .. });
        let victim = self
            .newest_request
            .filter(still_waits)
            .or_else(|| queues.into_iter().find_map(|queue| queue.front()))
            .expect("somebody waits to hold");
        // Looking at everybody is no more than this section wakes: nobody else can do anything.
        let told = Deadlock::new(Picture::of(self), self.owner(victim).id());
        let Mode::Waiting { upgrading, .. } = self.owner(victim).mode else {
            unreachable!("a victim waits to hold")
        };
        self.unlink(victim);
        self.set_mode(victim, if upgrading { Mode::Running } else { Mode::Out });
        self.resolve(victim, Outcome::Deadlock(Box::new(told)));
    }
}
