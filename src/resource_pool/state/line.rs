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
//! # Why no wake-up is lost
//! Each section that frees something ends with [`State::settle`]. It grants, under the lock, until no key in line can
//! be served (INV-RP-EXACT-WAKE-UP). A grant belongs to its waiter: no newcomer can take it, and a waiter that gives
//! up passes it on (`grants.rs`).
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
    /// Returns whether a borrower waits, in a queue or beside its creation.
    #[inline]
    pub(crate) fn has_line(&self) -> bool {
        self.waiting + self.creating > 0
    }

    #[cold]
    pub(crate) fn wait(
        &mut self,
        key: SubKey,
        patience: &Patience,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        let queue = &mut self.subs[key].queue;
        let waiter = match *patience {
            Patience::None => return Step::Refused(Refusal::WouldBlock),
            _ if self.options.when_exhausted == WhenExhausted::Fail => {
                return Step::Refused(Refusal::Exhausted);
            }
            Patience::Thread(_) | Patience::Task => {
                self.waiters.enqueue_caller(queue, patience.is_thread())
            }
        };
        self.waiting += 1;
        self.update_line(key);
        self.make_way(key, fx);
        Step::Wait(WaitForTurn { key, waiter })
    }

    /// Serves the line, the oldest waiter first, until no waiter can be served.
    #[inline]
    pub(crate) fn settle(&mut self, fx: &mut Effects<F>) {
        if self.has_line() {
            self.serve_line(fx);
        }
    }

    #[cold]
    fn serve_line(&mut self, fx: &mut Effects<F>) {
        while let Some(key) = self.first_in_line() {
            // The waiters that retry come first to all that is free.
            if !self.options.fair && self.free() <= self.retrying {
                return;
            }
            if self.creation_is_first(key) {
                self.serve_creation(key, fx);
                continue;
            }
            let outcome = if self.is_served_directly(&self.subs[key]) {
                // The first cannot be served only if neither a resource nor a place is free: then no other can.
                let Some(grant) = self.grant(key, fx) else { return };
                Outcome::Granted(grant)
            } else {
                self.retrying += 1;
                self.subs[key].retrying += 1;
                Outcome::Retry
            };
            let queue = &mut self.subs[key].queue;
            fx.push(Effect::Wake(self.waiters.resolve_front(queue, outcome)));
            self.waiting -= 1;
            self.update_line(key);
        }
    }

    /// Returns how many idle resources and places are free, for whatever key.
    pub(crate) fn free(&self) -> usize {
        let places = self.limits.max_total.saturating_sub(self.total);
        (self.idle - self.tested).saturating_add(places)
    }

    pub(crate) fn first_in_line(&self) -> Option<SubKey> {
        self.line.first().map(|(_, key)| key)
    }

    /// Returns whether the key has a waiter and its own limits leave room.
    pub(crate) fn is_eligible(&self, key: SubKey) -> bool {
        let sub = &self.subs[key];
        let room = self.limits.max_total_per_key.saturating_sub(sub.total);
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

    /// Puts the key into the line or out of it. Called after its counts or its oldest waiter have changed.
    pub(crate) fn update_line(&mut self, key: SubKey) {
        let ticket = self.ticket_in_line(key);
        self.line.set(&mut self.subs, key, ticket);
    }

    /// Returns whether the key's oldest borrower that could be served creates, and would take an idle resource instead.
    fn creation_is_first(&self, key: SubKey) -> bool {
        let waits = self.waiting_ticket(key);
        self.creating_ticket(key).is_some_and(|creates| waits.is_none_or(|waits| creates < waits))
    }

    /// Returns the ticket of the key's oldest borrower that could use what becomes free.
    pub(crate) fn ticket_in_line(&self, key: SubKey) -> Option<u64> {
        let waits = self.waiting_ticket(key);
        waits.into_iter().chain(self.creating_ticket(key)).min()
    }
    fn waiting_ticket(&self, key: SubKey) -> Option<u64> {
        match self.is_eligible(key) {
            true => self.waiters.front_ticket(&self.subs[key].queue),
            false => None,
        }
    }

    /// A newcomer was served before the oldest waiter of its key.
    #[cold]
    pub(crate) fn overtake(&mut self, key: SubKey, fx: &mut Effects<F>) {
        self.waiters.overtake_front(&self.subs[key].queue);
        self.counts_changed(key, fx);
    }

    /// Ends each change of a key's counts: serves the line.
    #[inline]
    pub(crate) fn counts_changed(&mut self, key: SubKey, fx: &mut Effects<F>) {
        if self.has_line() {
            self.update_line(key);
            self.settle(fx);
        }
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
        let step = if self.closed {
            Step::Refused(Refusal::Closed)
        } else if let Some(grant) =
            self.may_lend(&self.subs[key]).then(|| self.grant(key, fx)).flatten()
        {
            self.pick_up(grant, Some(arrival.ticket), fx)
        } else {
            // It lost the race, and returns to its place.
            let queue = &mut self.subs[key].queue;
            let waiter = self.waiters.requeue(queue, is_thread, arrival.ticket);
            self.waiters.set_lost(waiter, arrival.lost.saturating_add(1));
            self.waiting += 1;
            self.update_line(key);
            Step::Wait(WaitForTurn { key, waiter })
        };
        self.counts_changed(key, fx);
        self.trim(key, None, fx);
        self.forget_if_empty(key, fx);
        step
    }

    pub(crate) fn end_retry(&mut self, key: SubKey) {
        self.retrying -= 1;
        self.subs[key].retrying -= 1;
    }

    /// Removes a waiter that gives up, and passes its grant on (PROP-RP-LATE-GRANT).
    pub(crate) fn give_up(&mut self, key: SubKey, waiter: WaiterKey, fx: &mut Effects<F>) {
        let (outcome, waker) = match self.subs.get_mut(key) {
            Some(sub) => self.waiters.cancel(&mut sub.queue, waiter),
            // It was resolved by a close, and its key was forgotten since: it is in no queue.
            None => self.waiters.cancel(&mut Queue::default(), waiter),
        };
        fx.drop_waker(waker);
        match outcome {
            None => {
                self.waiting -= 1;
                self.update_line(key);
                self.settle(fx);
                self.forget_if_empty(key, fx);
            }
            Some(Outcome::Granted(grant)) => self.return_grant(grant, fx),
            Some(Outcome::Retry) => {
                self.end_retry(key);
                self.counts_changed(key, fx);
                self.trim(key, None, fx);
                self.forget_if_empty(key, fx);
            }
            Some(Outcome::Closed | Outcome::GivesWay) => {}
        }
    }
}
