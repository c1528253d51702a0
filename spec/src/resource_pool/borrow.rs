//! The critical sections of a borrower, from its request to its resource.
//!
//! A row reads `state -- operation, condition --> next state`.

use crate::resource_pool::rules::Defect::{ForgottenWaiter, LateGrant};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Refusal, ResourcePool, Slot, Test, Waiter, WhenExhausted,
};

impl ResourcePool {
    // Out -- borrow, closed --> refused
    // Out -- borrow, no waiter for the key, and it can be served --> Activating or Creating
    // Out -- borrow, otherwise --> Waiting; or refused, if the options or the borrower say so
    pub(crate) fn borrow(&mut self, client: ClientId, key: Key, waits: bool) {
        if self.closed && !self.planted(ClosedLends) {
            return self.refuse(client, Refusal::Closed);
        }
        let all = self.planted(NewcomersQueueBehindAll);
        let first = self.line.iter().position(|waiter| waiter.key == key || all);
        let queues = first.is_some_and(|at| self.goes_first(&self.line[at]));
        if !queues && self.may_lend(key) {
            self.drop_expired(key, self.creates || self.has_place(key));
        }
        if !queues && let Some(serving) = self.serving(key) {
            self.tickets[client] = self.next();
            self.serve(client, key, serving, false);
            if let Some(overtaken) = first {
                let waiter = &mut self.line[overtaken];
                waiter.lost = (waiter.lost + 1).min(self.options.races);
                self.settle();
            }
            return;
        }
        let creates = self.creates && self.could_order(key);
        if !waits && !creates {
            return self.refuse(client, Refusal::WouldBlock);
        }
        if self.options.when_exhausted == WhenExhausted::Fail && !creates {
            return self.refuse(client, Refusal::Exhausted);
        }
        let ticket = self.next();
        let at = if self.planted(QueueJumps) { 0 } else { self.line.len() };
        self.line.insert(at, Waiter { client, key, ticket, lost: 0 });
        (self.clients[client], self.tickets[client]) = (At::Waiting(key), ticket);
        self.events.push(Event::Waits(client));
        if self.creates {
            self.settle();
        }
    }

    // Called -- retry, it can be served --> Activating or Creating
    // Called -- retry, it lost the race --> Waiting, at its old place
    // In either case: a resource that was kept for it and now exceeds max_idle leaves
    pub(crate) fn retry(&mut self, client: ClientId) {
        let At::Called(waiter) = self.clients[client] else { return };
        if self.closed {
            return self.refuse(client, Refusal::Closed);
        }
        if self.may_lend(waiter.key) {
            self.drop_expired(waiter.key, self.creates || self.has_place(waiter.key));
        }
        match self.serving(waiter.key) {
            Some(serving) => {
                self.tickets[client] = waiter.ticket;
                self.serve(client, waiter.key, serving, false);
            }
            None => {
                let at = self.line.partition_point(|other| other.ticket < waiter.ticket);
                let lost = (waiter.lost + 1).min(self.options.races);
                self.line.insert(at, Waiter { lost, ..waiter });
                self.clients[client] = At::Waiting(waiter.key);
                self.events.push(Event::Waits(client));
            }
        }
        self.settle();
        self.trim(waiter.key, None);
    }

    // Activating, Creating, Evicting, granted -- the borrower picks up its grant --> the same, picked up
    // the same, closed --> refused; its grant is passed on
    // Creating, Evicting -- picks up, too old --> the same, picked up: the creation starts now
    // Activating -- picks up, too old, another is idle --> Activating that; the old one leaves
    // the same, and the key has no idle resource --> Evicting: it destroys the old one, and creates in its place
    // the same, and the pool creates --> Waiting, at its old place; the old one leaves
    pub(crate) fn pick_up(&mut self, client: ClientId) {
        if self.closed {
            return self.pass_on_all(client, Refusal::Closed);
        }
        let (At::Evicting { granted, .. }
        | At::Creating { granted, .. }
        | At::Activating { granted, .. }) = &mut self.clients[client]
        else {
            return;
        };
        *granted = false;
        let at = self.clients[client];
        let Some(&slot) = at.slot().filter(|slot| slot.old || slot.expired) else { return };
        if self.planted(LateGrantLendsOld) {
            return;
        }
        if !matches!(at, At::Activating { .. }) {
            return self.begin_again(client);
        }
        let key = slot.key;
        self.drop_expired(key, true);
        match self.next_idle(key) {
            Some(at) => {
                self.leave(slot);
                self.take(client, at, false);
                self.settle();
            }
            None if self.creates => {
                self.active[key] -= 1;
                self.leave(slot);
                self.queue_again(client, key);
            }
            None => {
                self.total[key] -= 1;
                let new = self.reserve(key);
                self.events.push(Event::Creates(client, new.id, Some(slot.id)));
                let (since, test) = (0, Test::No);
                let victim = Idle {
                    slot,
                    since,
                    test,
                    due: true,
                    expired: true,
                    overlooked: false,
                    fresh: false,
                };
                self.clients[client] = At::Evicting { slot: new, victim, granted: false };
            }
        }
    }

    /// Renews the slot: its creation has not started yet, so the resource will be new.
    fn begin_again(&mut self, client: ClientId) {
        self.made += 1;
        let id = self.made;
        if let At::Evicting { slot, .. } | At::Creating { slot, .. } = &mut self.clients[client] {
            *slot = Slot { id, old: false, expired: false, ..*slot };
        }
    }

    // Evicting -- it has destroyed the victim --> Creating; the victim no longer counts for its key
    pub(crate) fn victim_destroyed(&mut self, client: ClientId) {
        let At::Evicting { slot, victim, .. } = self.clients[client] else { return };
        self.clients[client] = At::Creating { slot, granted: false };
        self.total[victim.slot.key] -= usize::from(victim.slot.key != slot.key);
        if !self.planted(EvictionServesNoWaiter) {
            self.settle();
        }
    }

    // Creating -- created --> Activating
    pub(crate) fn created(&mut self, client: ClientId) {
        let At::Creating { slot, .. } = self.clients[client] else { return };
        self.clients[client] = At::Activating { slot, fresh: true, granted: false };
    }

    // Activating -- ready --> Lent
    pub(crate) fn ready(&mut self, client: ClientId) {
        let At::Activating { slot, .. } = self.clients[client] else { return };
        self.clients[client] = At::Lent(slot);
        self.events.push(Event::Has(client, slot.id));
    }

    // Creating -- fails --> refused; the place is given back
    pub(crate) fn create_fails(&mut self, client: ClientId) {
        let At::Creating { slot, .. } = self.clients[client] else { return };
        self.active[slot.key] -= usize::from(!self.planted(CreationLeaks));
        self.total[slot.key] -= 1;
        self.refuse(client, Refusal::Failed);
        if !self.planted(FailureServesNoWaiter) {
            self.settle();
        }
    }

    // Activating a fresh resource -- fails --> refused; the resource leaves
    // Activating -- fails and was destroyed, another is idle --> Activating that; a place is given back
    // Activating -- the same, no other is idle --> Creating in its place; or Waiting, at its old place
    // Activating -- the same, closed --> refused; the place is given back
    pub(crate) fn activate_fails(&mut self, client: ClientId) {
        let At::Activating { slot, fresh, granted } = self.clients[client] else { return };
        let key = slot.key;
        if fresh && !self.planted(FreshIsTakenAgain) {
            self.refuse(client, Refusal::Failed);
            self.active[key] -= 1;
            self.leave(slot);
            return self.settle();
        }
        if granted && self.original(ForgottenWaiter) || self.planted(LosesItsPlace) {
            return self.wait_again(client, key);
        }
        if self.closed {
            return self.refuse_closed(client, key);
        }
        self.drop_expired(key, true);
        match self.next_idle(key).filter(|_| !self.planted(CreatesBesideIdle)) {
            Some(at) => {
                self.total[key] -= 1;
                self.take(client, at, false);
                self.settle();
            }
            None if self.creates => {
                self.active[key] -= 1;
                self.total[key] -= 1;
                self.queue_again(client, key);
            }
            None => self.create_instead(client, key),
        }
    }

    /// Refuses a borrower whose resource failed after the close.
    fn refuse_closed(&mut self, client: ClientId, key: Key) {
        self.active[key] -= 1;
        self.total[key] -= 1;
        self.refuse(client, Refusal::Closed);
    }

    /// Lets the borrower create a resource in the place of the failed one.
    fn create_instead(&mut self, client: ClientId, key: Key) {
        self.total[key] -= 1;
        let slot = self.reserve(key);
        self.events.push(Event::Creates(client, slot.id, None));
        self.tickets[client] = self.next();
        self.clients[client] = At::Creating { slot, granted: false };
    }

    /// Puts the borrower back to waiting, as a defect and a planted fault do.
    fn wait_again(&mut self, client: ClientId, key: Key) {
        self.active[key] -= 1;
        self.total[key] -= 1;
        self.clients[client] = At::Waiting(key);
        self.events.push(Event::Waits(client));
        // In the Elixir pool it has left the line.
        if self.planted(LosesItsPlace) {
            let ticket = self.next();
            self.line.push(Waiter { client, key, ticket, lost: 0 });
            self.settle();
        }
    }

    // Waiting -- gives up --> refused
    // Called -- gives up --> refused; the call is passed on
    // Activating, Creating, Evicting, granted and not picked up -- gives up --> refused; its grant is passed on
    pub(crate) fn give_up(&mut self, client: ClientId) {
        self.pass_on_all(client, Refusal::GaveUp);
    }

    fn pass_on_all(&mut self, client: ClientId, why: Refusal) {
        let was = std::mem::replace(&mut self.clients[client], At::Out);
        self.events.push(Event::Refused(client, why));
        match was {
            At::Waiting(_) if self.planted(LeavesLineInName) => {}
            At::Waiting(_) => self.line.retain(|waiter| waiter.client != client),
            At::Called(_) if self.planted(GivenUpCallIsLost) => return,
            At::Called(waiter) => {
                self.settle();
                return self.trim(waiter.key, None);
            }
            At::Activating { slot, .. } => return self.pass_on(slot),
            At::Creating { slot, .. } => {
                self.active[slot.key] -= 1;
                self.total[slot.key] -= 1;
            }
            // The place is free again, and the victim may stay.
            At::Evicting { slot, victim, .. } => {
                self.active[slot.key] -= 1;
                self.total[slot.key] -= usize::from(victim.slot.key != slot.key);
                if !self.planted(LateGrantLosesVictim) {
                    return self.spare(victim);
                }
                self.total[victim.slot.key] -= 1;
            }
            At::Out | At::Lent(_) => {}
        }
        self.settle();
    }

    /// Passes on a resource that its borrower did not pick up.
    fn pass_on(&mut self, slot: Slot) {
        self.active[slot.key] -= 1;
        if self.planted(LateGrantDestroyed) {
            return self.leave(slot);
        }
        self.put_back(slot, !self.original(LateGrant));
    }

    // Creating -- cancelled --> refused; the creation is dropped, and its place given back
    // Activating -- cancelled --> refused; the resource is destroyed
    pub(crate) fn cancel(&mut self, client: ClientId) {
        match self.clients[client] {
            At::Creating { slot, .. } => {
                self.refuse(client, Refusal::GaveUp);
                if self.planted(CancelledCreationLeaks) {
                    return;
                }
                self.active[slot.key] -= 1;
                self.total[slot.key] -= 1;
                self.settle();
            }
            At::Activating { slot, .. } => {
                self.refuse(client, Refusal::GaveUp);
                self.active[slot.key] -= 1;
                self.leave(slot);
                self.settle();
            }
            _ => {}
        }
    }

    pub(crate) fn refuse(&mut self, client: ClientId, why: Refusal) {
        self.clients[client] = At::Out;
        self.events.push(Event::Refused(client, why));
    }
}
