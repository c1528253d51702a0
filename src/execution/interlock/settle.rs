//! Grants: the last step of every critical section finds the owners that can go on.
//!
//! The guards compare counters, so `settle` looks at each queue once and touches only the owners that go on,
//! in this order:
//! 1. loads of owners that gave up their share, one after the other, before all resume together;
//! 2. owners that wait only for the holder: ends of permit blocks, and children of live executions. Each has
//!    its turn between two holders. In Rails children wait for unloads, too (`rails-child-behind-unload`);
//! 3. draining owners: after a load once no upgrading load waits, after an unload once no upgrading load
//!    waits, nor an unload that may go. They never wait for a request by an owner without a share;
//! 4. unloads of owners that gave up their share;
//! 5. newcomers, and requests of owners without a share, in order of arrival. But a load passes an unload
//!    that waits for a permit block. In Rails newcomers overtake such requests for ever
//!    (`rails-starved-request`).
//!
//! # Every waiter has its turn
//! A draining owner makes no request, so the owners that have a share now bound steps 1 and 4. Requests
//! without a share are unbounded, so they come last, in line with the newcomers: a waiter lets only earlier
//! arrivals pass. In the model in `spec/`, such a request is made once the earlier newcomers have entered.
//!
//! # One pass is enough
//! Steps 2 and 3 only give shares, which can only delay steps 1, 4 and the requests of step 5. Step 3
//! withdraws entries before steps 4 and 5 look at them. A grant to hold ends the pass.

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

    /// Returns the purpose of the earliest request without a share, if it may go.
    fn next_pending(&self, unloads_go: bool) -> Option<Purpose> {
        let [load, unload] = self.first_pending();
        match (load, unload.filter(|_| unloads_go)) {
            (Some(load), Some(unload)) if unload < load => Some(Purpose::Unload),
            (Some(_), _) => Some(Purpose::Load),
            (None, unload) => unload.map(|_| Purpose::Unload),
        }
    }
    /// Returns the first such request's ticket, by purpose.
    fn first_pending(&self) -> [Option<u64>; 2] {
        let ticket = |key: Key| self.owner(key).ticket;
        self.pending.each_ref().map(|queue| queue.front().map(ticket))
    }
    /// Returns the ticket before which newcomers enter now: that of the first request without a share; 0 if a
    /// holder or another entry keeps them out.
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

    /// Grants the oldest request of this kind. Returns false without one.
    fn grant_front(&mut self, purpose: Purpose, upgrading: bool) -> bool {
        let Some(key) = self.queue(Mode::Waiting { purpose, upgrading }).front() else {
            return false;
        };
        self.unlink(key);
        self.hold(key, purpose, upgrading);
        self.resolve(key, Outcome::Granted);
        true
    }

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
