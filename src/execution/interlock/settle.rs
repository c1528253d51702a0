//! Who can go on: the last step of every critical section.
//!
//! The guards are comparisons of counters, so each queue is asked once, and only those who go are
//! touched. The order among those who could go is the ruling:
//! 1. loads of owners that have given up their share for it: one after the other, before anybody
//!    resumes, so that all resume together;
//! 2. who waits for the holder alone: ends of permit blocks, children of live executions, which in the
//!    original wait for unloads, too (`rails-child-behind-unload`). So each has its turn between two holders;
//! 3. who let others of its kind go first, once none of them waits any more: for a request by an owner
//!    that had no share it never waits;
//! 4. unloads of owners that have given up their share;
//! 5. newcomers, and requests of owners that had no share, in the order in which they came (but a load passes
//!    an unload that waits for a permit block). In the original newcomers overtake these for ever
//!    (`rails-starved-request`).
//!
//! # Nobody starves
//! Steps 1 and 4 are bounded by those who have a share now: who drains asks for nothing. A stream of
//! requests by owners without a share, which nothing bounds, comes last, and as a line with the
//! newcomers: who stands in it lets no more pass than came before. In the machine's terms, such a
//! request is made when those who came before it have entered.
//!
//! # One pass is enough
//! Steps 2 and 3 only give shares, which takes from steps 1, 4 and the requests of 5 and gives to nobody;
//! step 3 withdraws entries, which steps 4 and 5 then see; whatever grants ends the pass.

use super::modes::{Mode, Outcome, Purpose};
use super::state::State;
use crate::collections::slab_list::Key;
use std::mem::take;

impl State {
    pub(super) fn settle(&mut self) {
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
        let unloads_go = self.tally.reject_unload == 0;
        if self.running() == 0 && unloads_go && self.grant_front(Unload, true) {
            return;
        }
        self.admit_newcomers();
        if self.running() == 0 {
            if let Some(purpose) = self.next_pending(unloads_go) {
                self.grant_front(purpose, false);
            }
        }
    }

    /// Of the requests without a share the one that came first, if it may go.
    fn next_pending(&self, unloads_go: bool) -> Option<Purpose> {
        let [load, unload] = self.first_pending();
        match (load, unload.filter(|_| unloads_go)) {
            (Some(load), Some(unload)) if unload < load => Some(Purpose::Unload),
            (Some(_), _) => Some(Purpose::Load),
            (None, unload) => unload.map(|_| Purpose::Unload),
        }
    }
    /// When the first request without a share came, by purpose.
    fn first_pending(&self) -> [Option<u64>; 2] {
        let ticket = |key: Key| self.owner(key).ticket;
        self.pending.each_ref().map(|queue| queue.front().map(ticket))
    }
    /// Those newcomers enter now who came before this ticket: it is that of the first request without a
    /// share, or, where another entry keeps them out, 0.
    pub(super) fn newcomers_before(&self) -> u64 {
        let pending: usize = self.pending.iter().map(|queue| queue.len()).sum();
        if self.holder.is_some() || self.tally.reject_share > pending {
            return 0;
        }
        self.first_pending().into_iter().flatten().min().unwrap_or(u64::MAX)
    }
    fn admit_newcomers(&mut self) {
        let limit = self.newcomers_before();
        while let Some(key) = self.newcomers.front().filter(|key| self.owner(*key).ticket < limit) {
            self.unlink(key);
            self.resume(key, false);
            self.resolve(key, Outcome::Granted);
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
}
