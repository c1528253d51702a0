//! The part that all handles of one pool share: its state, and the user's values that serve it.

use super::restart_files::RestartFiles;
use crate::application_pool::api::event::Event;
use crate::application_pool::api::spawner::Spawner;
use crate::application_pool::state::effects::Effects;
use crate::application_pool::state::ending::{Ending, Found};
use crate::application_pool::state::entry::{Entry, Home};
use crate::application_pool::state::state::{End, Outcome, State};
use crate::application_pool::state::table_keys::GroupKey;
use crate::kernel;
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::{Clock, ClockListener, Deadline};
use crate::kernel::collections::seat::Seat;
use crate::kernel::collections::wait_queue::{WaiterKey, Wake};
use crate::kernel::handle::Close;
#[cfg(any(test, debug_assertions))]
use crate::kernel::section::Invariant;
use crate::kernel::section::{Guarded, Lock, Patience, Wait, now};
use crate::kernel::user_code::{UserValue, contain};
use crate::periodic_executor::PeriodicExecutor;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) type Observer = Box<dyn Fn(&Event) + Send + Sync>;

pub(crate) struct Inner<S: Spawner> {
    pub(crate) spawner: UserValue<S>,
    pub(crate) state: Lock<State<S>>,
    pub(crate) restart_files: Option<RestartFiles>,
    pub(crate) observer: Option<UserValue<Observer>>,
    pub(crate) spawner_stack_size: Option<usize>,
    /// Empty if the pool was built without a cleaner.
    pub(crate) cleaner: OnceLock<PeriodicExecutor>,
}

/// Implemented for the reference: the effects of a section start threads, which share the pool.
impl<S: Spawner> Guarded for Arc<Inner<S>> {
    type State = State<S>;
    type Effects = Effects<S>;
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<State<S>>] = State::<S>::INVARIANTS;
    #[cfg(any(test, debug_assertions))]
    fn entries(state: &State<S>) -> usize {
        state.groups.len()
    }
    #[cfg(any(test, debug_assertions))]
    fn narrow(state: &mut State<S>, to_touched: bool) {
        state.groups.narrow(to_touched);
    }

    #[inline]
    fn lock(&self) -> &Lock<State<S>> {
        &self.state
    }
    #[inline]
    fn effects(&self) -> Effects<S> {
        Effects::new(self.observer.is_some())
    }
    #[inline]
    fn settle(&self, state: &mut State<S>, fx: &mut Effects<S>) {
        state.end_section(fx);
    }
    #[inline]
    fn is_empty(fx: &Effects<S>) -> bool {
        fx.list.is_empty()
    }
    #[inline]
    fn run(&self, fx: &mut Effects<S>) {
        fx.run(self);
    }
}

impl<S: Spawner> Inner<S> {
    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        self.state.clock()
    }

    pub(crate) fn notify_observer(&self, event: &Event) {
        if let Some(observer) = &self.observer {
            let _ = contain(|| observer(event));
        }
    }

    /// Waits until nothing is left of a closed pool, unless the calling user code is part of what is left.
    pub(crate) fn wait_for_everything(self: &Arc<Self>, deadline: Deadline) -> bool {
        let deadline = match AtWork::is_for(&**self) {
            true => self.clock().deadline(Duration::ZERO),
            false => deadline,
        };
        self.wait_for(End::OfEverything, deadline)
    }

    /// Waits until a closed pool has come to this end. Returns whether it has, within the deadline.
    pub(crate) fn wait_for(self: &Arc<Self>, end: End, deadline: Deadline) -> bool {
        now(self.turn(WaitForEnd::new(end), Patience::Thread(deadline))).is_ok()
    }
}

impl<S: Spawner> Home<S> for Arc<Inner<S>> {
    fn end_session(&self, entry: &kernel::sync::Arc<Entry<S>>, ending: Ending) -> Found {
        self.critical(|state, fx| state.end_session(entry, ending, fx))
    }
}

impl<S: Spawner> Close for Inner<S> {
    fn close(this: &Arc<Self>) {
        this.critical(|state, fx| state.close(fx));
    }
}

impl<S: Spawner> ClockListener for Inner<S> {
    fn advanced(&self) {
        self.state.clock_advanced(|state| state.waiters.threads());
    }
}

/// A get that waits in its group's queue.
pub(crate) struct WaitForProcess {
    pub(crate) group: GroupKey,
    pub(crate) waiter: WaiterKey,
}

impl<S: Spawner> Wait<Arc<Inner<S>>> for WaitForProcess {
    type Outcome = Outcome<S>;
    type GivenUp = ();

    fn take(&mut self, state: &mut State<S>, _: &mut Effects<S>) -> Option<Outcome<S>> {
        state.waiters.take(self.waiter)
    }
    fn wake<'s>(&self, state: &'s mut State<S>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, state: &mut State<S>, fx: &mut Effects<S>) {
        state.leave_queue(self.group, self.waiter, fx);
    }
}

/// A caller that waits for an end of the pool. It joins the queue when it first looks.
pub(crate) struct WaitForEnd {
    end: End,
    seat: Seat,
}

impl WaitForEnd {
    pub(crate) fn new(end: End) -> Self {
        WaitForEnd { end, seat: Seat::default() }
    }
}

impl<S: Spawner> Wait<Arc<Inner<S>>> for WaitForEnd {
    type Outcome = ();
    type GivenUp = ();

    fn take(&mut self, state: &mut State<S>, _: &mut Effects<S>) -> Option<()> {
        if self.seat.is_taken() {
            return self.seat.take(&mut state.waiters).map(drop);
        }
        if state.has_come(self.end) {
            return Some(());
        }
        self.seat.sit(state.waiters.enqueue_thread(&mut state.ends[self.end as usize]));
        None
    }
    fn wake<'s>(&self, state: &'s mut State<S>) -> &'s mut Wake {
        self.seat.wake_mut(&mut state.waiters)
    }
    fn give_up(&mut self, state: &mut State<S>, _: &mut Effects<S>) {
        // A thread waits: it has no waker to drop.
        self.seat.give_up(&mut state.waiters, &mut state.ends[self.end as usize]);
    }
}
