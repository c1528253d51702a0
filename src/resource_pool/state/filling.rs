//! Fills the idle list up to a number: for `prefill`.
//!
//! A resource that is being created counts, whoever creates it: the maintenance, the pool or another caller. So the fills of
//! several callers, and a refill, share their creations, and go no further than the largest number. A caller that
//! lacks none of its own waits for those in flight, and looks again when one ends. One that is overdue may hang, and does
//! not count.

use super::effects::{Effect, Effects};
use super::names::SubKey;
use super::refill::Vacancy;
use super::refusal::NotAdded;
use super::state::{Outcome, State};
use super::waiting::Waits;
use crate::kernel::collections::seat::Seat;
use crate::kernel::collections::wait_queue::Wake;
use crate::resource_pool::api::factory::Form;

/// The next step of a fill.
pub(crate) enum NextFill<F: Form> {
    Done,
    /// The caller creates one more.
    This(Vacancy<F>),
    /// Enough are being created.
    Wait(WaitForCreation),
}

impl<F: Form> State<F> {
    /// Returns the next step of a caller that fills the key's idle list up to this number.
    pub(crate) fn next_fill(
        &mut self,
        key: SubKey,
        number: usize,
        is_thread: bool,
    ) -> Result<NextFill<F>, NotAdded> {
        let sub = &self.subs[key];
        if sub.idle.len() >= number {
            return Ok(NextFill::Done);
        }
        if self.closed || sub.idle.len() + sub.adding - sub.overdue.len() < number {
            return self.begin_add(key).map(NextFill::This);
        }
        let mut seat = Seat::default();
        seat.sit(self.waiters.enqueue_caller(&mut self.filling, is_thread));
        Ok(NextFill::Wait(WaitForCreation { seat }))
    }

    /// Lets the callers that fill look again: a creation for the idle list has ended, or is overdue.
    pub(crate) fn let_fillers_look(&mut self, fx: &mut Effects<F>) {
        while !self.filling.is_empty() {
            let wake = self.waiters.resolve_front(&mut self.filling, Outcome::Look);
            fx.push(Effect::Wake(wake));
        }
    }
}

/// A caller that waits for the end of a creation.
pub(crate) struct WaitForCreation {
    seat: Seat,
}

impl<F: Form> Waits<F> for WaitForCreation {
    type Outcome = ();

    fn take(&mut self, state: &mut State<F>, _: &mut Effects<F>) -> Option<()> {
        self.seat.take(&mut state.waiters).map(drop)
    }
    fn wake<'s>(&self, state: &'s mut State<F>) -> &'s mut Wake {
        self.seat.wake_mut(&mut state.waiters)
    }
    fn give_up(&mut self, state: &mut State<F>, fx: &mut Effects<F>) {
        let left = self.seat.give_up(&mut state.waiters, &mut state.filling);
        if let Some((_, waker)) = left {
            fx.drop_waker(waker);
        }
    }
}
