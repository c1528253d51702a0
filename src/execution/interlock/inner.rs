//! The part that all clones of an interlock share, with its critical sections and waits.

use super::caller::{Caller, OwnerId};
use super::dump::Dump;
use super::error::{AcquireError, Blocked};
use super::modes::{Step, Why};
use super::reload_state::ReloadState;
use super::state::State;
use crate::kernel::clock::{Clock, ClockListener, Deadline};
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::effects::{Effects, OnWaiter};
#[cfg(any(test, debug_assertions))]
use crate::kernel::section::Invariant;
use crate::kernel::section::{Guarded, Lock, Patience, Wait};
use crate::periodic_executor::PeriodicExecutor;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) struct Inner {
    pub(super) state: Lock<State>,
    /// Mirrors [`State::is_quiet`] for [`has_share`](super::Running::has_share).
    ///
    /// # Synchronization
    /// Relaxed, because the reader only asks about its own owner. That owner's steps come before the read. While that
    /// owner has no share, each section stores false here.
    pub(super) quiet: AtomicBool,
    pub(super) acquire_timeout: Option<Duration>,
    pub(super) reload: ReloadState,
    /// Ends the waits of tasks. Empty until a task first waits with a time limit.
    pub(super) timer: OnceLock<PeriodicExecutor>,
}

impl Guarded for Inner {
    type State = State;
    type Effects = Effects<OnWaiter>;
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<State>] = super::invariants::ALL;

    #[inline]
    fn lock(&self) -> &Lock<State> {
        &self.state
    }
    #[inline]
    fn effects(&self) -> Effects<OnWaiter> {
        Effects::new()
    }
    #[inline]
    fn settle(&self, state: &mut State, fx: &mut Effects<OnWaiter>) {
        state.settle(fx);
        let quiet = state.is_quiet();
        if self.quiet.load(Relaxed) != quiet {
            self.quiet.store(quiet, Relaxed);
        }
    }
    #[inline]
    fn is_empty(fx: &Effects<OnWaiter>) -> bool {
        fx.is_empty()
    }
    fn run(&self, fx: &mut Effects<OnWaiter>) {
        fx.run(OnWaiter::run);
    }
}

/// The wait of a call for its owner.
struct Queued<'a> {
    id: OwnerId,
    clock: &'a Clock,
}

impl Wait<Inner> for Queued<'_> {
    /// Fails if the time limit has passed.
    type Outcome = Result<(), Dump>;
    type GivenUp = Dump;

    fn take(&mut self, state: &mut State, fx: &mut Effects<OnWaiter>) -> Option<Self::Outcome> {
        let waiter = state.owner(self.id).waiter.as_ref().expect("the call waits");
        if waiter.granted {
            state.end_wait(self.id, fx);
            return Some(Ok(()));
        }
        waiter.expired.then(|| Err(self.give_up(state, fx)))
    }
    fn wake<'s>(&self, state: &'s mut State) -> &'s mut Wake {
        &mut state.owner_mut(self.id).waiter.as_mut().expect("the call waits").wake
    }
    fn give_up(&mut self, state: &mut State, fx: &mut Effects<OnWaiter>) -> Dump {
        let dump = Dump::of(state, self.clock.now());
        state.give_up(self.id, fx);
        dump
    }
    fn cancel(self, owner: &Inner) {
        owner.critical(|state, fx| state.give_up(self.id, fx));
    }
}

impl Inner {
    /// Takes a step of an owner, and waits if it has to. After a refusal the state is as before.
    pub(super) async fn step(
        self: &Arc<Self>,
        id: OwnerId,
        caller: Caller,
        step: impl FnOnce(&mut State) -> Result<Step, Why>,
    ) -> Result<(), AcquireError> {
        let stepped = self.critical(|state, _| {
            let stepped = step(state);
            if stepped == Ok(Step::Wait) {
                state.await_owner(id, caller, self.state.clock().now());
            }
            stepped
        });
        match stepped {
            Ok(Step::Done) => Ok(()),
            Ok(Step::Wait) => self.wait(id, caller).await,
            Err(why) => Err(self.deadlock(id, why, caller.at)),
        }
    }
    /// Waits for an owner for which [`State::await_owner`] was called.
    #[cold]
    pub(super) async fn wait(
        self: &Arc<Self>,
        id: OwnerId,
        caller: Caller,
    ) -> Result<(), AcquireError> {
        let clock = self.state.clock();
        let patience = match caller.limit {
            _ if caller.is_task => Patience::Task,
            Some(limit) => {
                // The limit counts from the section that queued the owner, as the dump's times do.
                let since = self.state.look(|state| state.since(id));
                Patience::Thread(clock.deadline_at(since.plus(limit)))
            }
            None => Patience::Thread(Deadline::Never),
        };
        // From here on a drop of the future gives the wait up.
        let turn = self.turn(Queued { id, clock }, patience);
        if let Some(limit) = caller.limit.filter(|_| caller.is_task) {
            self.limit_task(id, limit);
        }
        #[cfg(feature = "backtrace")]
        self.note_backtrace(id);
        match turn.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(dump)) | Err(dump) => {
                let blocked = Blocked { victim: id, at: caller.at, why: "", dump };
                Err(AcquireError::TimedOut(Box::new(blocked)))
            }
        }
    }
    /// Returns the error of a call that would wait for itself.
    #[cold]
    pub(super) fn deadlock(
        &self,
        victim: OwnerId,
        why: Why,
        at: &'static Location<'static>,
    ) -> AcquireError {
        AcquireError::Deadlock(Box::new(Blocked { victim, at, why, dump: self.dump() }))
    }

    pub(super) fn dump(&self) -> Dump {
        let now = self.state.clock().now();
        self.state.look(|state| Dump::of(state, now))
    }

    /// Captures a backtrace without the lock, because that is slow. Dumps show it while the call waits.
    #[cfg(feature = "backtrace")]
    fn note_backtrace(&self, id: OwnerId) {
        let backtrace = Arc::new(std::backtrace::Backtrace::force_capture());
        self.state.amend(|state| {
            if let Some(waiter) = &mut state.owner_mut(id).waiter {
                waiter.backtrace = Some(backtrace);
            }
        });
    }

    /// Identifies the interlock on the thread's stack. Unique while the interlock lives.
    #[inline]
    pub(super) fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self) as usize
    }
}

impl ClockListener for Inner {
    fn advanced(&self) {
        self.state.clock_advanced(State::threads);
    }
}
