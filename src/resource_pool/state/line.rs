//! The line of waiting borrowers: how they wait, are granted, give up and retry.
//!
//! # Who is served
//! A borrower that cannot be served at once waits in the queue of its key. Its ticket is its number in the order of
//! arrival over all keys. A key is *eligible* if it has a waiter and its own limits leave room for one more. The
//! eligible keys stand in *line* by the ticket of their oldest waiter.
//!
//! A resource or a place that becomes free goes to the first key in line: to the oldest waiter that can use it. A
//! key at its own limit therefore blocks no other key (PROP-RP-FULL-KEY).
//!
//! `settle.rs` says when the line is served, and why no wake-up is lost.
//!
//! Where the pool creates (`orders.rs`), only an idle resource serves a waiter. A key that has none, and lacks creations in
//! flight, stands in a second line: by the ticket of its oldest waiter that none of them is for. A place that becomes free
//! goes to the first key there (PROP-RP-NEXT-ORDER). Of both lines, the older waiter goes first. In an unfair pool, waiters
//! that lost a race and wait again count as the first of them.
//!
//! In an unfair pool a waiter is woken to retry instead. As many waiters retry as can be served (INV-RP-BARGING). A
//! waiter that lost the race returns to the front of its queue. Once it has lost `max_lost_races` of them, it is
//! granted what becomes free, as in a fair pool (PROP-RP-BOUNDED-OVERTAKING). So every borrow ends
//! (PROP-RP-EVERY-BORROW-ENDS, PROP-RP-EVERY-BARGING-BORROW-ENDS).

use super::effects::{Effect, Effects};
use super::names::SubKey;
use super::options::WhenExhausted;
use super::refusal::Refusal;
use super::slot::Sub;
use super::state::{Outcome, State, Step, WaitForTurn};
use crate::kernel::collections::wait_queue::{Arrival, Queue, WaiterKey};
use crate::kernel::section::Patience;
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Returns whether a borrower waits.
    #[inline]
    pub(crate) fn has_line(&self) -> bool {
        self.waiting > 0
    }

    #[cold]
    pub(crate) fn wait(&mut self, key: SubKey, patience: &Patience) -> Step<F> {
        let may_wait = match *patience {
            Patience::None => Err(Refusal::WouldBlock),
            _ if self.options.when_exhausted == WhenExhausted::Fail => Err(Refusal::Exhausted),
            Patience::Thread(_) | Patience::Task => Ok(()),
        };
        if let Err(refusal) = may_wait {
            // A wait for a creation of its own is none for others.
            if !(self.creates && self.could_order(key)) {
                return Step::Refused(refusal);
            }
        }
        let queue = &mut self.subs.touch(key).queue;
        let waiter = self.waiters.enqueue_caller(queue, patience.is_thread());
        self.waiting += 1;
        Step::Wait(WaitForTurn { key, waiter })
    }

    /// Serves the oldest waiter in line. Returns false if none can be served.
    #[cold]
    pub(crate) fn serve_first(&mut self, fx: &mut Effects<F>) -> bool {
        let (lend, order) = (self.line.first(), self.to_order.first());
        let ticket = lend.map_or(u64::MAX, |(ticket, _)| ticket);
        if let Some((_, key)) = order.filter(|(ordered, _)| *ordered < ticket) {
            if self.order_for(key, fx) {
                return true;
            }
        }
        let Some((_, key)) = lend else { return false };
        // The waiters that retry come first to all that is free.
        if !self.options.fair && !self.creates && self.free() <= self.retrying {
            return false;
        }
        let outcome = if self.is_served_directly(&self.subs[key]) {
            // The first cannot be served only if neither a resource nor a place is free: then no other can. Where the pool
            // creates, all of its idle resources have expired, and the key leaves this line.
            let Some(grant) = self.grant(key, fx) else { return self.creates };
            Outcome::Granted(grant)
        } else {
            self.retrying += 1;
            self.subs.touch(key).retrying += 1;
            Outcome::Retry
        };
        self.resolve_first(key, outcome, fx);
        true
    }

    /// Gives the oldest waiter of the key its outcome.
    pub(crate) fn resolve_first(&mut self, key: SubKey, outcome: Outcome<F>, fx: &mut Effects<F>) {
        let queue = &mut self.subs.touch(key).queue;
        fx.push(Effect::Wake(self.waiters.resolve_front(queue, outcome)));
        self.waiting -= 1;
    }

    /// Returns how many idle resources and places are free, for whatever key.
    pub(crate) fn free(&self) -> usize {
        let places = self.limits.max_total.saturating_sub(self.total);
        (self.idle - self.tested).saturating_add(places)
    }

    /// Returns whether a waiter could use what is free.
    pub(crate) fn is_needed(&self) -> bool {
        !self.line.is_empty() || !self.to_order.is_empty()
    }

    /// Returns whether the key has a waiter and its own limits leave room. Where the pool creates, only an idle resource
    /// is room.
    pub(crate) fn is_eligible(&self, key: SubKey) -> bool {
        let sub = &self.subs[key];
        let room = match self.creates {
            true => 0,
            false => self.limits.max_total_per_key.saturating_sub(sub.total),
        };
        !sub.queue.is_empty()
            && sub.available().saturating_add(room) > sub.retrying
            && (self.options.when_exhausted == WhenExhausted::Grow
                || sub.active.saturating_add(sub.retrying) < self.limits.max_active)
    }

    /// Returns whether the key's oldest waiter is granted what becomes free, and not only woken to retry: because
    /// newcomers may not barge, or because it has lost its races.
    #[inline]
    pub(crate) fn is_served_directly(&self, sub: &Sub<F>) -> bool {
        self.options.fair || self.waiters.front_lost(&sub.queue) >= self.options.max_lost_races
    }

    /// Puts the key into its line, or out of it.
    #[cold]
    pub(crate) fn update_line(&mut self, key: SubKey) {
        let lend = self.is_eligible(key);
        let sub = &self.subs[key];
        let orders = self.creates && !lend && self.may_order(sub);
        let lends = lend.then(|| self.waiters.front_ticket(&sub.queue)).flatten();
        let sub = &mut self.subs.links()[key];
        let ahead = sub.orders.len();
        let ordered = orders.then(|| self.waiters.nth_ticket(&mut sub.queue, ahead)).flatten();
        self.line.set(self.subs.links(), key, lends);
        self.to_order.set(self.subs.links(), key, ordered);
        self.update_giving_way(key);
    }

    /// Returns the tickets by which the key stands in the lines.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn tickets_in_lines(&self, key: SubKey) -> (Option<u64>, Option<u64>) {
        let (sub, lends) = (&self.subs[key], self.is_eligible(key));
        let orders = self.creates && !lends && self.may_order(sub);
        let without = || self.waiters.nth_ticket_counted(&sub.queue, sub.orders.len());
        let lends = lends.then(|| self.waiters.front_ticket(&sub.queue)).flatten();
        (lends, orders.then(without).flatten())
    }

    /// A newcomer was served before the oldest waiter of its key.
    #[cold]
    pub(crate) fn overtake(&mut self, key: SubKey) {
        self.waiters.overtake_front(&self.subs.touch(key).queue);
    }

    /// Serves a waiter that retries, or puts it back into its queue.
    pub(crate) fn retry(
        &mut self,
        key: SubKey,
        arrival: Arrival,
        is_thread: bool,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        self.end_retry(key);
        if self.closed {
            Step::Refused(Refusal::Closed)
        } else if let Some(grant) =
            self.may_lend(&self.subs[key]).then(|| self.grant(key, fx)).flatten()
        {
            self.pick_up(grant, Some(arrival.ticket))
        } else {
            // It lost the race, and returns to its place.
            let queue = &mut self.subs.touch(key).queue;
            let waiter = self.waiters.requeue(queue, is_thread, arrival.ticket);
            self.waiters.set_lost(waiter, arrival.lost.saturating_add(1));
            self.waiting += 1;
            Step::Wait(WaitForTurn { key, waiter })
        }
    }

    pub(crate) fn end_retry(&mut self, key: SubKey) {
        self.retrying -= 1;
        self.subs.touch(key).retrying -= 1;
    }

    /// Removes a waiter that gives up, and passes its grant on (PROP-RP-LATE-GRANT).
    pub(crate) fn give_up(&mut self, key: SubKey, waiter: WaiterKey, fx: &mut Effects<F>) {
        let (outcome, waker) = match self.subs.contains(key) {
            true => self.waiters.cancel(&mut self.subs.touch(key).queue, waiter),
            // It was resolved by a close, and its key was forgotten since: it is in no queue.
            false => self.waiters.cancel(&mut Queue::default(), waiter),
        };
        fx.drop_waker(waker);
        match outcome {
            None => self.waiting -= 1,
            Some(Outcome::Granted(grant)) => self.return_grant(grant, fx),
            Some(Outcome::Retry) => self.end_retry(key),
            Some(Outcome::Failed(failed)) => fx.push(Effect::ReportFailed(failed)),
            Some(Outcome::Closed | Outcome::Dropped | Outcome::Look) => {}
        }
    }
}
