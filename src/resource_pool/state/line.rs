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
        let queue = &mut self.subs.touch(key).queue;
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
        self.make_way(key, fx);
        Step::Wait(WaitForTurn { key, waiter })
    }

    /// Serves the oldest waiter in line. Returns false if none can be served.
    #[cold]
    pub(crate) fn serve_first(&mut self, fx: &mut Effects<F>) -> bool {
        let Some(key) = self.first_in_line() else { return false };
        // The waiters that retry come first to all that is free.
        if !self.options.fair && self.free() <= self.retrying {
            return false;
        }
        if self.creation_is_first(key) {
            self.serve_creation(key, fx);
            return true;
        }
        let outcome = if self.is_served_directly(&self.subs[key]) {
            // The first cannot be served only if neither a resource nor a place is free: then no other can.
            let Some(grant) = self.grant(key, fx) else { return false };
            Outcome::Granted(grant)
        } else {
            self.retrying += 1;
            self.subs.touch(key).retrying += 1;
            Outcome::Retry
        };
        let queue = &mut self.subs.touch(key).queue;
        fx.push(Effect::Wake(self.waiters.resolve_front(queue, outcome)));
        self.waiting -= 1;
        true
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

    /// Puts the key into the line or out of it.
    #[cold]
    pub(crate) fn update_line(&mut self, key: SubKey) {
        let ticket = self.ticket_in_line(key);
        self.line.set(self.subs.links(), key, ticket);
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
            Some(Outcome::Closed | Outcome::GivesWay) => {}
        }
    }
}
