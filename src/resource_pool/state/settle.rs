//! The end of a section: what follows from the changes of its keys.
//!
//! A section changes a key by a *touch* alone: [`TouchedArena`](crate::kernel::collections::touched) gives no other way.
//! Its end, and each sleep of a thread, settles the touched keys:
//! 1. Each key gets its place in a line, or loses it (`line.rs`).
//! 2. The lines are served, the oldest waiter first, until no waiter can be: by a grant, or by an order (`orders.rs`). Either
//!    touches its key again.
//! 3. Each key is kept up: a surplus resource leaves, the refill (`refill.rs`) and the eviction (`due.rs`) learn what is due,
//!    and an unused key is forgotten (`keys.rs`). Last, the same for the pool: room for a refill, and the end of a close.
//!
//! # Why no wake-up is lost
//! A waiter can be served if its key stands in a line, and a resource or a place is free for it. Both follow from the counts of keys
//! and from the limits. A count changes by a touch alone, and new limits touch all keys (`State::fit`). So a section that lets a
//! waiter be served has touched a key, and serves the waiter at its end (INV-RP-EXACT-WAKE-UP).
//!
//! The grant belongs to its waiter: no newcomer can take it, and a waiter that gives up passes it on (`grants.rs`). How a
//! waiter learns of its grant is the business of [`section`](crate::kernel::section).
//!
//! # Order
//! The waiters are served first. So a resource that a waiter takes is not surplus, and a key that is granted a place is not
//! forgotten. The other steps change nothing that a waiter depends on: a surplus resource keeps its place until it is destroyed,
//! which is a section of its own.
//!
//! One transition cannot wait for the end of its section, because it goes on from what a waiter leaves: `evict_next`
//! (`due.rs`) calls [`State::settle`] itself.

use super::effects::Effects;
use super::names::{SlotKey, SubKey};
use super::slot::{Content, SlotState};
use super::state::State;
use crate::resource_pool::api::factory::Form;
use std::collections::VecDeque;

/// The most room that [`State::lined`] keeps. Otherwise, one section that touches all keys would leave it for ever.
const MOST_LINED: usize = 256;

impl<F: Form> State<F> {
    /// Settles each key that the section has touched.
    #[inline]
    pub(crate) fn settle(&mut self, fx: &mut Effects<F>) {
        let Some(key) = self.subs.only_touched() else { return self.settle_all(fx) };
        if self.has_line() || self.is_needed() || self.overdue > 0 {
            return self.settle_all(fx);
        }
        // Most sections touch one key, while no borrower waits.
        self.subs.forget_only();
        if self.keeps_up || self.came.is_some() || self.subs[key].total == 0 {
            self.keep_up_one(key, fx);
        }
    }

    /// Returns whether more follows from a key's counts than the line and the surplus of what came.
    pub(crate) fn needs_upkeep(&self) -> bool {
        // In an unfair pool, a waiter that takes nothing may leave a surplus.
        let of_options =
            self.timed || !self.options.fair || self.options.eviction_interval.is_some();
        of_options || self.limits.min_idle > 0 || self.closed
    }

    /// Keeps up the only key that was touched.
    #[inline(never)]
    fn keep_up_one(&mut self, key: SubKey, fx: &mut Effects<F>) {
        let came = self.came.take();
        self.keep_up(key, came, fx);
        if self.subs.any_touched() {
            return self.settle_all(fx);
        }
        self.keep_up_pool(fx);
        self.keeps_up = self.needs_upkeep();
    }

    /// Settles the touched keys, and serves the line.
    #[cold]
    fn settle_all(&mut self, fx: &mut Effects<F>) {
        if !self.subs.any_touched() {
            return;
        }
        loop {
            while let Some(key) = self.subs.next_touched() {
                self.update_line(key);
                self.lined.push_back(key);
            }
            if self.serve_first(fx) {
                continue;
            }
            let Some(key) = self.lined.pop_front() else { break };
            // The key may have been touched twice, and forgotten.
            if self.subs.contains(key) {
                let came = self.came.take_if(|slot| self.slots[*slot].key == key);
                self.keep_up(key, came, fx);
            }
        }
        if self.lined.capacity() > MOST_LINED {
            self.lined = VecDeque::new();
        }
        debug_assert!(self.came.is_none(), "a resource came, and its key was not touched");
        self.keep_up_pool(fx);
    }

    /// Does for a key what follows once the waiters are served. `came` is the resource that became idle.
    #[inline]
    fn keep_up(&mut self, key: SubKey, came: Option<SlotKey>, fx: &mut Effects<F>) {
        let sub = &self.subs[key];
        if sub.total == 0 && !sub.permanent {
            return self.keep_up_empty(key, fx);
        }
        if self.has_surplus(sub) {
            self.trim(key, came, fx);
        }
        self.watch_spare(key);
        if self.limits.min_idle > 0 {
            self.watch_minimum(key);
        }
        if let Some(slot) = came {
            self.schedule_idle(key, fx);
            let entry = &mut self.slots[slot];
            if let (SlotState::Idle, Content::Ready(loan)) = (entry.state, &mut entry.content) {
                loan.fresh = false;
            }
        }
    }

    /// Does the same for a key without a resource, which is forgotten if nothing else needs it.
    #[cold]
    fn keep_up_empty(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.watch_spare(key);
        // `min_idle` applies while a resource is left.
        self.subs.links()[key].made = false;
        self.watch_minimum(key);
        if self.subs[key].is_unused() {
            self.forget(key, fx);
        }
    }

    /// Does what follows for the pool as a whole.
    #[inline]
    fn keep_up_pool(&mut self, fx: &mut Effects<F>) {
        if self.limits.min_idle > 0 {
            self.watch_room(fx);
        }
        if self.closed {
            self.notify_if_finished(fx);
        }
    }
}
