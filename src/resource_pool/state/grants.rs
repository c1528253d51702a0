//! Grants: resources and places that are reserved for a waiter until it picks them up; and how a borrower whose
//! resource is outdated or has failed gets another one.
//!
//! A waiter picks its grant up when its thread or task runs next, which may be much later. By then the pool may have
//! been cleared, or the resource may have expired. So the waiter checks its grant as a borrower checks an idle
//! resource, and does not use an outdated one (PROP-RP-FRESH, PROP-RP-CLEAR-ALL).
//!
//! The waiter keeps its turn (PROP-RP-KEEPS-PLACE). It takes the next idle resource; without one, it destroys the
//! outdated resource and creates another in its place. An empty place never expires; `clear_all` only renumbers it. Where
//! the pool creates, it waits again instead, by the time of its arrival.
//!
//! A waiter that gives up passes on only a resource that may still be lent. If no other waiter takes it, it becomes
//! idle and its idle time starts then, as after a loan.

use super::effects::{Dead, Effects};
use super::names::SlotKey;
use super::refusal::Refusal;
use super::slot::{Content, SlotState};
use super::state::{Grant, State, Step};
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Picks up the grant of a waiter with this ticket.
    pub(crate) fn pick_up_later(
        &mut self,
        grant: Grant,
        ticket: u64,
        is_thread: bool,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        let slot = grant.slot;
        if !self.is_outdated(slot) {
            return self.pick_up(grant, Some(ticket));
        }
        match self.slots[slot].content.take() {
            Content::Nothing => {
                self.reset_slot(slot);
                self.pick_up(grant, Some(ticket))
            }
            content => self.replace(slot, content, ticket, is_thread, fx),
        }
    }

    /// Returns whether a granted resource must not be lent any more.
    pub(crate) fn is_outdated(&self, slot: SlotKey) -> bool {
        let entry = &self.slots[slot];
        let expired = match entry.content {
            // The lifetime begins with the creation.
            Content::Nothing => false,
            // It was never idle: it came, and was granted.
            Content::Ready(ref loan) if loan.fresh => entry.expired || self.has_outlived(slot),
            Content::Ready(_) => entry.expired || self.has_expired(slot),
        };
        expired || entry.epoch != self.epoch
    }

    /// Replaces an outdated grant for the same borrower; the old resource leaves.
    fn replace(
        &mut self,
        slot: SlotKey,
        old: Content<F>,
        ticket: u64,
        is_thread: bool,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        let key = self.slots[slot].key;
        let Some(next) = self.next_fresh_idle(key, true, fx) else {
            if self.creates {
                self.end_loan(slot);
                self.leave(slot, old, fx);
                return Step::Wait(self.wait_again(key, is_thread, ticket));
            }
            let meta = self.subs[key].metadata.clone();
            self.reset_slot(slot);
            let victim = Dead { slot: None, content: old, meta };
            return self.create_in(slot, Some(victim));
        };
        self.remove_idle(next);
        self.slots[next].state = SlotState::Lent;
        let step = self.pick_up(Grant { slot: next, victim: None }, Some(ticket));
        // `active` stays: the new loan counts instead of the old one.
        self.leave(slot, old, fx);
        step
    }

    /// Replaces a resource that failed and was destroyed. Its borrower keeps its turn (PROP-RP-KEEPS-PLACE), which it had
    /// by this ticket.
    pub(crate) fn another(
        &mut self,
        slot: SlotKey,
        ticket: u64,
        is_thread: bool,
        fx: &mut Effects<F>,
    ) -> Step<F> {
        let key = self.slots[slot].key;
        if self.closed {
            self.give_back_place(slot, fx);
            return Step::Refused(Refusal::Closed);
        }
        let Some(next) = self.next_fresh_idle(key, true, fx) else {
            if self.creates {
                self.give_back_place(slot, fx);
                return Step::Wait(self.wait_again(key, is_thread, ticket));
            }
            return self.recreate(slot);
        };
        self.remove_idle(next);
        self.slots[next].state = SlotState::Lent;
        let step = self.pick_up(Grant { slot: next, victim: None }, Some(ticket));
        // Both slots are loans of this borrower. Only the place of the old one is given back.
        self.remove(slot);
        step
    }

    /// Reuses the slot for a creation by the same borrower.
    fn recreate(&mut self, slot: SlotKey) -> Step<F> {
        self.reset_slot(slot);
        self.create_in(slot, None)
    }

    /// Gives the slot a new serial number and epoch, and restarts its times.
    pub(crate) fn reset_slot(&mut self, slot: SlotKey) {
        self.serials += 1;
        let entry = &mut self.slots[slot];
        (entry.serial, entry.epoch) = (self.serials, self.epoch);
        if self.timed {
            self.begin_creation_time(slot);
        }
    }

    /// Notes that the creation begins now, and its lifetime with it.
    ///
    /// The place may have been reserved long before: a waiter may pick its grant up late, or a victim may be
    /// destroyed first.
    pub(crate) fn begin_creation_time(&mut self, slot: SlotKey) {
        self.end_life(slot);
        let now = self.clock.now();
        let entry = &mut self.slots[slot];
        (entry.created, entry.since) = (now, now);
        // Before the creation only a lifetime could have expired the slot.
        entry.expired = false;
        self.begin_life(slot);
    }
}
