//! The two waits of the pool: a borrower's for its turn, and a caller's for the end of a closed pool.

use super::effects::Effects;
use super::error::Refusal;
use super::factory::Form;
use super::inner::Inner;
use super::state::{Outcome, State, Step, WaitForTurn};
use crate::clock::Deadline;
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
use crate::section::{Patience, Wait};

impl<F: Form> Wait<Inner<F>> for WaitForTurn {
    type Outcome = Step<F>;
    type GivenUp = ();

    fn take(&mut self, state: &mut State<F>, fx: &mut Effects<F>) -> Option<Step<F>> {
        let ticket = state.waiters.ticket(self.waiter);
        let is_thread = state.waiters.wake_mut(self.waiter).thread().is_some();
        Some(match state.waiters.take(self.waiter)? {
            // Picked up after the close: the pool lends nothing by then.
            Outcome::Granted(grant) if state.closed => {
                state.return_grant(grant, fx);
                Step::Refused(Refusal::Closed)
            }
            Outcome::Granted(grant) => state.pick_up_later(grant, fx),
            Outcome::Retry => match state.retry(self.key, ticket, is_thread, fx) {
                Step::Wait(again) => {
                    *self = again;
                    return None;
                }
                step => step,
            },
            Outcome::Closed => Step::Refused(Refusal::Closed),
        })
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        state.give_up(self.key, self.waiter, fx);
    }
}

/// A caller that waits until a closed pool has no resource left. It joins the queue when it first looks.
pub(super) struct WaitForEnd {
    patience: Patience,
    waiter: Option<Key>,
}

impl WaitForEnd {
    pub(super) fn new(patience: Patience) -> Self {
        WaitForEnd { patience, waiter: None }
    }
}

impl<F: Form> Wait<Inner<F>> for WaitForEnd {
    type Outcome = ();
    type GivenUp = ();

    fn take(&mut self, state: &mut State<F>, _: &mut Effects<F>) -> Option<()> {
        match self.waiter {
            Some(waiter) => state.waiters.take(waiter).map(drop),
            None if state.is_finished() => Some(()),
            None => {
                let waiter = match self.patience {
                    Patience::Thread(_) => state.waiters.enqueue_thread(&mut state.closing),
                    _ => state.waiters.enqueue_task(&mut state.closing),
                };
                self.waiter = Some(waiter);
                None
            }
        }
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter.expect("it has looked"))
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        if let Some(waiter) = self.waiter {
            let (_, waker) = state.waiters.cancel(&mut state.closing, waiter);
            fx.drop_waker(waker);
        }
    }
}

/// Returns when a caller with this patience gives up.
pub(super) fn deadline(patience: Patience) -> Deadline {
    match patience {
        Patience::Thread(deadline) => deadline,
        Patience::None | Patience::Task => Deadline::Never,
    }
}
