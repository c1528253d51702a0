//! The waits of the pool: a borrower's for its turn, in a queue or beside its creation; an orphaned creation's for a
//! call to give way; and a caller's for the end of a closed pool.

use super::effects::Effects;
use super::names::SlotKey;
use super::refusal::Refusal;
use super::slot::SlotState;
use super::state::{Outcome, State, Step, WaitForTurn};
use crate::kernel::collections::seat::Seat;
use crate::kernel::collections::wait_queue::{Queue, Wake};
use crate::kernel::section::Patience;
use crate::resource_pool::api::factory::Form;

/// The part of a wait that runs under the lock. `waits.rs` makes a [`Wait`](crate::kernel::section::Wait) of the pool of it.
pub(crate) trait Waits<F: Form>: Unpin + Sized {
    type Outcome;
    fn take(&mut self, state: &mut State<F>, fx: &mut Effects<F>) -> Option<Self::Outcome>;
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake;
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>);
}

impl<F: Form> Waits<F> for WaitForTurn {
    type Outcome = Step<F>;

    fn take(&mut self, state: &mut State<F>, fx: &mut Effects<F>) -> Option<Step<F>> {
        let arrival = state.waiters.arrival(self.waiter);
        let is_thread = state.waiters.wake_mut(self.waiter).thread().is_some();
        Some(match state.waiters.take(self.waiter)? {
            // Picked up after the close: the pool lends nothing by then.
            Outcome::Granted(grant) if state.closed => {
                state.return_grant(grant, fx);
                Step::Refused(Refusal::Closed)
            }
            Outcome::Granted(grant) => state.pick_up_later(grant, arrival.ticket, fx),
            Outcome::Retry => match state.retry(self.key, arrival, is_thread, fx) {
                Step::Wait(again) => {
                    *self = again;
                    return None;
                }
                step => step,
            },
            Outcome::Closed | Outcome::GivesWay => Step::Refused(Refusal::Closed),
        })
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        state.give_up(self.key, self.waiter, fx);
    }
}

/// A borrower that creates, and also waits for a resource that comes back. It joins the waiters when it first looks.
pub(crate) struct WaitWhileCreating {
    slot: SlotKey,
    ticket: u64,
    seat: Seat,
}

impl WaitWhileCreating {
    pub(crate) fn new(slot: SlotKey, ticket: u64) -> Self {
        WaitWhileCreating { slot, ticket, seat: Seat::default() }
    }
}

impl<F: Form> Waits<F> for WaitWhileCreating {
    type Outcome = Step<F>;

    fn take(&mut self, state: &mut State<F>, fx: &mut Effects<F>) -> Option<Step<F>> {
        let WaitWhileCreating { slot, ticket, ref mut seat } = *self;
        if !seat.is_taken() {
            seat.sit(state.join_creating(slot, ticket, fx));
        }
        let Outcome::Granted(grant) = seat.take(&mut state.waiters)? else {
            unreachable!("a creation is only served")
        };
        if state.closed {
            // As in `WaitForTurn`.
            state.return_grant(grant, fx);
            return Some(Step::Refused(Refusal::Closed));
        }
        Some(state.pick_up_later(grant, ticket, fx))
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        self.seat.wake_mut(&mut state.waiters)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        let left = self.seat.give_up(&mut state.waiters, &mut Queue::default());
        let Some((outcome, waker)) = left else { return };
        fx.drop_waker(waker);
        match outcome {
            Some(Outcome::Granted(grant)) => state.return_grant(grant, fx),
            _ => state.leave_creating(self.slot),
        }
    }
}

/// The task of an orphaned creation, which may have to give way. It joins the waiters when it first looks.
pub(crate) struct WaitToGiveWay {
    slot: SlotKey,
    seat: Seat,
}

impl WaitToGiveWay {
    pub(crate) fn new(slot: SlotKey) -> Self {
        WaitToGiveWay { slot, seat: Seat::default() }
    }
}

impl<F: Form> Waits<F> for WaitToGiveWay {
    type Outcome = ();

    fn take(&mut self, state: &mut State<F>, _: &mut Effects<F>) -> Option<()> {
        if self.seat.is_taken() {
            return self.seat.take(&mut state.waiters).map(drop);
        }
        let entry = &mut state.slots[self.slot];
        if entry.state != SlotState::Adding {
            return Some(());
        }
        let waiter = state.waiters.add_task();
        entry.waiter = Some(waiter);
        self.seat.sit(waiter);
        None
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        self.seat.wake_mut(&mut state.waiters)
    }
    /// Its creation has ended by then, or ends with it.
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        let left = self.seat.give_up(&mut state.waiters, &mut Queue::default());
        if let Some((_, waker)) = left {
            fx.drop_waker(waker);
        }
    }
}

/// A caller that waits until a closed pool has no resource left. It joins the queue when it first looks.
pub(crate) struct WaitForEnd {
    patience: Patience,
    seat: Seat,
}

impl WaitForEnd {
    pub(crate) fn new(patience: Patience) -> Self {
        WaitForEnd { patience, seat: Seat::default() }
    }
}

impl<F: Form> Waits<F> for WaitForEnd {
    type Outcome = ();

    fn take(&mut self, state: &mut State<F>, _: &mut Effects<F>) -> Option<()> {
        if self.seat.is_taken() {
            return self.seat.take(&mut state.waiters).map(drop);
        }
        if state.is_finished() {
            return Some(());
        }
        let is_thread = self.patience.is_thread();
        self.seat.sit(state.waiters.enqueue_caller(&mut state.closing, is_thread));
        None
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        self.seat.wake_mut(&mut state.waiters)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        let left = self.seat.give_up(&mut state.waiters, &mut state.closing);
        if let Some((_, waker)) = left {
            fx.drop_waker(waker);
        }
    }
}
