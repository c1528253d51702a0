//! Waiting for the end of a run: one procedure, for threads and tasks.

use super::core::{Core, Ending};
use super::exit::Exit;
use super::outcome::{Ended, JoinError, Joined};
use super::registry::Member;
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Deadline;
use crate::kernel::collections::seat::Seat;
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::{Effects, OnWaiter};
use crate::kernel::section::{Guarded, Patience, Wait, now};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl<T: Send + 'static> Core<T> {
    /// Waits until the run has ended, if there is one, and until the threads of all runs that have ended are gone.
    pub(super) async fn join(&self, patience: Patience) -> Result<Joined, JoinError> {
        let (ended, exits) = self.wait_for_end(patience).await.ok_or(JoinError::TimedOut)?;
        // The runs of tasks leave no threads.
        let are_gone = exits.iter().all(|exit| exit.is_gone_by(patience.deadline()));
        if are_gone { ended.result() } else { Err(JoinError::TimedOut) }
    }

    /// Waits until the run has ended. Returns `None` if the deadline comes first.
    async fn wait_for_end(&self, patience: Patience) -> Option<(Ended, Vec<Exit>)> {
        let wait = WaitForEnd { core: self, patience, seat: Seat::default() };
        let mut turn = pin!(self.turn(wait, patience));
        // Each poll asks: another task, or another process, may poll the future on.
        let poll = |cx: &mut Context<'_>| match self.cannot_wait() {
            Some(joined) => Poll::Ready(Some((Ended::Joined(joined), Vec::new()))),
            None => turn.as_mut().poll(cx).map(Result::ok),
        };
        poll_fn(poll).await
    }

    /// Returns why the caller cannot wait for the run, if it cannot.
    fn cannot_wait(&self) -> Option<Joined> {
        match () {
            () if AtWork::is_for(self) => Some(Joined::Itself),
            () if self.is_forked() => Some(Joined::Forked),
            () => None,
        }
    }
}

/// A caller that waits for the end of a run. It joins the queue when it first looks.
struct WaitForEnd<'a, T> {
    core: &'a Core<T>,
    patience: Patience,
    seat: Seat,
}

impl<T: Send + 'static> Wait<Core<T>> for WaitForEnd<'_, T> {
    type Outcome = (Ended, Vec<Exit>);
    type GivenUp = ();

    fn take(&mut self, ending: &mut Ending<T>, _: &mut Effects<OnWaiter>) -> Option<Self::Outcome> {
        let Ending { joining, queue, last, exits, .. } = ending;
        let ended = match self.seat.is_taken() {
            true => self.seat.take(joining)?,
            // Before the caller looks at the clock: an advance after this wakes it.
            false if self.core.signal.announce_join() => {
                self.seat.sit(joining.enqueue_caller(queue, self.patience.is_thread()));
                return None;
            }
            false => last.clone(),
        };
        Some((ended, exits.all()))
    }
    fn wake<'s>(&self, ending: &'s mut Ending<T>) -> &'s mut Wake {
        self.seat.wake_mut(&mut ending.joining)
    }
    fn give_up(&mut self, ending: &mut Ending<T>, fx: &mut Effects<OnWaiter>) {
        if let Some((_, Some(waker))) = self.seat.give_up(&mut ending.joining, &mut ending.queue) {
            fx.push(OnWaiter::Drop(waker));
        }
    }
    fn cancel(mut self, core: &Core<T>) {
        // A caller that cannot wait has not looked, and must not touch the lock: see `Core::is_forked`.
        if self.seat.is_taken() {
            core.critical(|ending, fx| self.give_up(ending, fx));
        }
    }
}

impl<T: Send + 'static> Member for Core<T> {
    fn name(&self) -> Arc<str> {
        self.settings.name.clone()
    }
    fn close(&self) {
        self.signal.close();
    }
    fn has_ended_by(&self, deadline: Deadline) -> bool {
        now(self.wait_for_end(Patience::Thread(deadline))).is_some()
    }
}
