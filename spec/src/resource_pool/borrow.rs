//! A borrower, from asking to having: what one critical section each makes of it.

use crate::resource_pool::rules::Defect::{ForgottenWaiter, LateGrant};
use crate::resource_pool::rules::Planted::*;
use crate::resource_pool::state::{
    At, ClientId, Event, Idle, Key, Refusal, ResourcePool, Slot, Test, Waiter, WhenExhausted,
};

impl ResourcePool {
    // Out -- borrow, closed --> refused
    // Out -- borrow, nobody waits for the key, and there is one --> Preparing or Creating
    // Out -- borrow, there is none --> Waiting; or refused, if that is what the options or the borrower want
    pub(crate) fn borrow(&mut self, client: ClientId, key: Key, waits: bool) {
        if self.closed && !self.planted(ClosedLends) {
            return self.refuse(client, Refusal::Closed);
        }
        let all = self.planted(NewcomersQueueBehindAll);
        let behind = self.line.iter().any(|waiter| waiter.key == key || all);
        if (!behind || !self.options.fair) && self.may_lend(key) {
            self.drop_what_is_over(key, self.has_place(key));
        }
        if (!behind || !self.options.fair)
            && let Some(serving) = self.serving(key)
        {
            return self.serve(client, key, serving, false);
        }
        if !waits {
            return self.refuse(client, Refusal::WouldBlock);
        }
        if self.options.when_exhausted == WhenExhausted::Fail {
            return self.refuse(client, Refusal::Exhausted);
        }
        let ticket = self.next();
        let at = if self.planted(QueueJumps) { 0 } else { self.line.len() };
        self.line.insert(at, Waiter { client, key, ticket });
        self.clients[client] = At::Waiting(key);
        self.told.push(Event::Waits(client));
    }

    // Called -- retry, there is one --> Preparing or Creating
    // Called -- retry, there is none any more --> Waiting, where it was
    // In either case: what was kept for it, and is one too many now, leaves
    pub(crate) fn retry(&mut self, client: ClientId) {
        let At::Called(waiter) = self.clients[client] else { return };
        if self.closed {
            return self.refuse(client, Refusal::Closed);
        }
        if self.may_lend(waiter.key) {
            self.drop_what_is_over(waiter.key, self.has_place(waiter.key));
        }
        match self.serving(waiter.key) {
            Some(serving) => self.serve(client, waiter.key, serving, false),
            None => {
                let at = self.line.partition_point(|other| other.ticket < waiter.ticket);
                self.line.insert(at, waiter);
                self.clients[client] = At::Waiting(waiter.key);
                self.told.push(Event::Waits(client));
            }
        }
        self.settle();
        self.trim(waiter.key, None);
    }

    // Preparing, Creating, MakingRoom, handed over -- its borrower comes for it --> the same, awake the same,
    // closed --> refused; what it had is passed on Creating, MakingRoom -- it comes; too old --> the same,
    // awake: it begins now Preparing, Creating what another had begun -- it comes; too old; the key has stock
    // --> Preparing the next; the old one leaves the same; there is no stock --> MakingRoom: it destroys the
    // old one, and creates in its place
    pub(crate) fn come(&mut self, client: ClientId) {
        if self.closed {
            return self.pass_on_all(client, Refusal::Closed);
        }
        let (At::MakingRoom { handed, .. }
        | At::Creating { handed, .. }
        | At::Preparing { handed, .. }) = &mut self.clients[client]
        else {
            return;
        };
        *handed = false;
        let at = self.clients[client];
        let Some(&slot) = at.slot().filter(|slot| slot.old || slot.expired) else { return };
        if self.planted(LateIsLentAtAnyAge) {
            return;
        }
        if !slot.unfinished && !matches!(at, At::Preparing { .. }) {
            return self.begin_again(client);
        }
        let key = slot.key;
        self.drop_what_is_over(key, true);
        match self.stock_of(key) {
            Some(at) => {
                self.leave(slot);
                self.take(client, at, false);
                self.settle();
            }
            None => {
                self.total[key] -= 1;
                let new = self.reserve(key);
                self.told.push(Event::Creates(client, new.id, Some(slot.id)));
                let (since, test) = (0, Test::No);
                let victim = Idle { slot, since, test, due: true, over: true, overlooked: false };
                self.clients[client] = At::MakingRoom { slot: new, victim, handed: false };
            }
        }
    }

    /// Nothing has been made in its place yet: what is, is new.
    fn begin_again(&mut self, client: ClientId) {
        self.made += 1;
        let id = self.made;
        if let At::MakingRoom { slot, .. } | At::Creating { slot, .. } = &mut self.clients[client] {
            *slot = Slot { id, old: false, expired: false, ..*slot };
        }
    }

    // MakingRoom -- it has destroyed what makes room --> Creating; of its key there is one less
    pub(crate) fn made_room(&mut self, client: ClientId) {
        let At::MakingRoom { slot, victim, .. } = self.clients[client] else { return };
        self.clients[client] = At::Creating { slot, handed: false };
        self.total[victim.slot.key] -= usize::from(victim.slot.key != slot.key);
        if !self.planted(MadeRoomServesNobody) {
            self.settle();
        }
    }

    // Creating -- it has been created --> Preparing; what another had begun is out of stock
    pub(crate) fn created(&mut self, client: ClientId) {
        let At::Creating { slot, .. } = self.clients[client] else { return };
        let fresh = !slot.unfinished;
        let slot = Slot { unfinished: false, ..slot };
        self.clients[client] = At::Preparing { slot, fresh, handed: false };
    }

    // Preparing -- it is ready --> Lent
    pub(crate) fn ready(&mut self, client: ClientId) {
        let At::Preparing { slot, .. } = self.clients[client] else { return };
        self.clients[client] = At::Lent(slot);
        self.told.push(Event::Has(client, slot.id));
    }

    // Creating what another had begun -- it fails --> Creating, anew: others may leave more that fails for ever
    // Creating what another had begun -- it fails; closed --> refused; the place is given back
    // Creating -- it fails --> refused; the place is given back
    pub(crate) fn create_fails(&mut self, client: ClientId) {
        let At::Creating { slot, .. } = self.clients[client] else { return };
        if slot.unfinished && !self.planted(UnfinishedIsFinal) {
            return match self.closed {
                true => self.come_late(client, slot.key),
                false => self.create_anew(client, slot.key),
            };
        }
        self.active[slot.key] -= usize::from(!self.planted(CreationLeaks));
        self.total[slot.key] -= 1;
        self.refuse(client, Refusal::Failed);
        if !self.planted(FailureServesNobody) {
            self.settle();
        }
    }

    // Preparing what was made for it -- it fails --> refused; it leaves
    // Preparing -- it fails, and was destroyed; the key has stock --> Preparing the next; a place is given back
    // Preparing -- the same; there is no stock --> Creating, in its place
    // Preparing -- the same; closed --> refused; the place is given back
    pub(crate) fn prepare_fails(&mut self, client: ClientId) {
        let At::Preparing { slot, fresh, handed } = self.clients[client] else { return };
        let key = slot.key;
        if fresh {
            self.refuse(client, Refusal::Failed);
            self.active[key] -= 1;
            self.leave(slot);
            return self.settle();
        }
        if handed && self.original(ForgottenWaiter) || self.planted(LosesItsPlace) {
            return self.wait_again(client, key);
        }
        if self.closed {
            return self.come_late(client, key);
        }
        self.drop_what_is_over(key, true);
        match self.stock_of(key).filter(|_| !self.planted(CreatesBesideStock)) {
            Some(at) => {
                self.total[key] -= 1;
                self.take(client, at, false);
                self.settle();
            }
            None => self.create_anew(client, key),
        }
    }

    /// The pool was closed before what the borrower had failed.
    fn come_late(&mut self, client: ClientId, key: Key) {
        self.active[key] -= 1;
        self.total[key] -= 1;
        self.refuse(client, Refusal::Closed);
    }

    /// The borrower creates one in the place of what failed.
    fn create_anew(&mut self, client: ClientId, key: Key) {
        self.total[key] -= 1;
        let slot = self.reserve(key);
        self.told.push(Event::Creates(client, slot.id, None));
        self.clients[client] = At::Creating { slot, handed: false };
    }

    /// As nobody should.
    fn wait_again(&mut self, client: ClientId, key: Key) {
        self.active[key] -= 1;
        self.total[key] -= 1;
        self.clients[client] = At::Waiting(key);
        self.told.push(Event::Waits(client));
        // In the original it has left the line.
        if self.planted(LosesItsPlace) {
            let ticket = self.next();
            self.line.push(Waiter { client, key, ticket });
            self.settle();
        }
    }

    // Waiting -- gives up --> refused
    // Called -- gives up --> refused; the call is passed on
    // Preparing, Creating, MakingRoom, handed over and not awake -- gives up --> refused; what it had is passed on
    pub(crate) fn give_up(&mut self, client: ClientId) {
        self.pass_on_all(client, Refusal::GaveUp);
    }

    fn pass_on_all(&mut self, client: ClientId, why: Refusal) {
        let was = std::mem::replace(&mut self.clients[client], At::Out);
        self.told.push(Event::Refused(client, why));
        match was {
            At::Waiting(_) if self.planted(LeavesLineInName) => {}
            At::Waiting(_) => self.line.retain(|waiter| waiter.client != client),
            At::Called(_) if self.planted(GivenUpCallIsLost) => return,
            At::Called(waiter) => {
                self.settle();
                return self.trim(waiter.key, None);
            }
            At::Preparing { slot, .. } => return self.pass_on(slot),
            At::Creating { slot, .. } if slot.unfinished => return self.pass_on(slot),
            At::Creating { slot, .. } => {
                self.active[slot.key] -= 1;
                self.total[slot.key] -= 1;
            }
            // Its place is free again, that of its key with it if that is the same: it may stay after all.
            At::MakingRoom { slot, victim, .. } => {
                self.active[slot.key] -= 1;
                self.total[slot.key] -= usize::from(victim.slot.key != slot.key);
                if !self.planted(LateLosesVictim) {
                    return self.spare(victim);
                }
                self.total[victim.slot.key] -= 1;
            }
            At::Out | At::Lent(_) => {}
        }
        self.settle();
    }

    /// What was handed over too late.
    fn pass_on(&mut self, slot: Slot) {
        self.active[slot.key] -= 1;
        if self.planted(LateIsDestroyed) {
            return self.leave(slot);
        }
        self.put_into_stock(slot, !self.original(LateGrant));
    }

    // Creating -- cancelled, while it is being made --> refused; what was begun becomes stock
    // Creating what another had begun -- cancelled --> refused; it is dropped, and its place given back
    // Preparing -- cancelled --> refused; it is destroyed
    pub(crate) fn cancel(&mut self, client: ClientId) {
        match self.clients[client] {
            At::Creating { slot, .. } => {
                self.refuse(client, Refusal::GaveUp);
                if self.planted(CancelledCreationLeaks) {
                    return;
                }
                self.active[slot.key] -= 1;
                if slot.unfinished && !self.planted(OfferedAgain) {
                    self.total[slot.key] -= 1;
                    return self.settle();
                }
                self.put_into_stock(Slot { unfinished: true, ..slot }, true);
            }
            At::Preparing { slot, .. } => {
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
        self.told.push(Event::Refused(client, why));
    }
}
