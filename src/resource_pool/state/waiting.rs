//! The waits of the pool: a borrower's for its turn; a creation's for a call to drop it; and a caller's for the end of a
//! closed pool.

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
            Outcome::Granted(grant) => {
                return self.unless_again(state.pick_up_later(
                    grant,
                    arrival.ticket,
                    is_thread,
                    fx,
                ));
            }
            Outcome::Retry => {
                return self.unless_again(state.retry(self.key, arrival, is_thread, fx));
            }
            Outcome::Failed(failed) => Step::Failed(failed),
            // A caller that fills waits in no key's queue.
            Outcome::Closed | Outcome::Dropped | Outcome::Look => Step::Refused(Refusal::Closed),
        })
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        state.give_up(self.key, self.waiter, fx);
    }
}

impl WaitForTurn {
    /// Returns the step, unless it is to wait again.
    fn unless_again<F: Form>(&mut self, step: Step<F>) -> Option<Step<F>> {
        match step {
            Step::Wait(again) => {
                *self = again;
                None
            }
            step => Some(step),
        }
    }
}

/// The task of a creation, which the pool may drop. It joins the waiters when it first looks.
pub(crate) struct WaitForDrop {
    slot: SlotKey,
    seat: Seat,
}

impl WaitForDrop {
    pub(crate) fn new(slot: SlotKey) -> Self {
        WaitForDrop { slot, seat: Seat::default() }
    }
    pub(crate) fn slot(&self) -> SlotKey {
        self.slot
    }
}

impl<F: Form> Waits<F> for WaitForDrop {
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
