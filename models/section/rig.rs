//! A counter of permits, which callers take, wait for and give back.

use crate::kernel::clock::{Clock, ClockListener, Deadline, ManualClock};
use crate::kernel::collections::wait_queue::{Queue, WaiterKey, Waiters, Wake};
use crate::kernel::effects::{self, Effects, OnWaiter, Round};
use crate::kernel::section::{Guarded, Invariant, Lock, Patience, Wait, invariants, now};
use crate::models::rig::{Counter, Reentry};
use std::sync::{Arc, Weak};
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);

pub(super) struct Permits {
    lock: Lock<State>,
    /// Called by the user code of effects and wakers: it looks at the permits again.
    pub(super) reentry: Reentry,
    pub(super) clock: ManualClock,
}

pub(super) struct State {
    free: usize,
    queue: Queue,
    waiters: Waiters<()>,
}

pub(super) enum Effect {
    OnWaiter(OnWaiter),
    Callback,
}

impl effects::Effect for Effect {
    fn round(&self) -> Round {
        match self {
            Effect::OnWaiter(effect) => effect.round(),
            Effect::Callback => Round::UserCode,
        }
    }
}

impl Guarded for Permits {
    type State = State;
    type Effects = Effects<Effect>;
    const INVARIANTS: &'static [Invariant<State>] = invariants! {
        "INV-EXACT-WAKE-UP" "a caller waits only while no permit is free" exact_wake_up;
    };

    fn lock(&self) -> &Lock<State> {
        &self.lock
    }
    fn effects(&self) -> Effects<Effect> {
        Effects::new()
    }
    fn settle(&self, state: &mut State, fx: &mut Effects<Effect>) {
        while state.free > 0 && !state.queue.is_empty() {
            state.free -= 1;
            let wake = state.waiters.resolve_front(&mut state.queue, ());
            fx.push(Effect::OnWaiter(OnWaiter::Wake(wake)));
        }
    }
    fn is_empty(fx: &Effects<Effect>) -> bool {
        fx.is_empty()
    }
    fn run(&self, fx: &mut Effects<Effect>) {
        fx.run(|effect| match effect {
            Effect::OnWaiter(effect) => effect.run(),
            Effect::Callback => self.reentry.enter(),
        });
    }
}

fn exact_wake_up(state: &State) -> bool {
    state.free == 0 || state.queue.is_empty()
}

/// Counts each look for its permit, if it has a counter.
pub(super) struct WaitForPermit(WaiterKey, Option<Counter>);

impl Wait<Permits> for WaitForPermit {
    type Outcome = ();
    type GivenUp = ();
    fn take(&mut self, state: &mut State, _: &mut Effects<Effect>) -> Option<()> {
        if let Some(counter) = &self.1 {
            counter.up();
        }
        state.waiters.take(self.0)
    }
    fn wake<'s>(&self, state: &'s mut State) -> &'s mut Wake {
        state.waiters.wake_mut(self.0)
    }
    fn give_up(&mut self, state: &mut State, fx: &mut Effects<Effect>) {
        let (granted, waker) = state.waiters.cancel(&mut state.queue, self.0);
        state.free += usize::from(granted.is_some());
        if let Some(waker) = waker {
            fx.push(Effect::OnWaiter(OnWaiter::Drop(waker)));
        }
    }
}

/// Leaves the first permit that it gets to the others, and waits again behind them.
struct WaitForSecond {
    waiter: WaiterKey,
    has_left_one: bool,
}

impl Wait<Permits> for WaitForSecond {
    type Outcome = ();
    type GivenUp = ();
    fn take(&mut self, state: &mut State, _: &mut Effects<Effect>) -> Option<()> {
        state.waiters.take(self.waiter)?;
        if std::mem::replace(&mut self.has_left_one, true) {
            return Some(());
        }
        state.free += 1;
        self.waiter = state.waiters.enqueue_thread(&mut state.queue);
        None
    }
    fn wake<'s>(&self, state: &'s mut State) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, _: &mut State, _: &mut Effects<Effect>) {
        unreachable!("it has no deadline")
    }
}

impl Permits {
    pub(super) fn new(free: usize) -> Arc<Self> {
        let clock = ManualClock::new();
        let state = State { free, queue: Queue::default(), waiters: Waiters::default() };
        let lock = Lock::new(state, clock.clock());
        let permits = Arc::new(Permits { lock, reentry: Reentry::default(), clock });
        let weak = Arc::downgrade(&permits);
        let listener: Weak<dyn ClockListener> = weak.clone();
        permits.lock.clock().add_listener(listener);
        permits.reentry.enable(move || {
            if let Some(permits) = weak.upgrade() {
                permits.free();
            }
        });
        permits
    }
    pub(super) fn free(&self) -> usize {
        self.lock.look(|state| state.free)
    }
    pub(super) fn is_waited_for(&self) -> bool {
        self.lock.look(|state| !state.queue.is_empty())
    }
    pub(super) fn give(&self) {
        self.critical(|state, fx| {
            state.free += 1;
            fx.push(Effect::Callback);
        });
    }
    /// Returns whether the caller had to wait, or `None` if it gave up.
    pub(super) async fn take(&self, patience: Patience) -> Option<bool> {
        self.take_by(patience, None).await
    }
    async fn take_by(&self, patience: Patience, counter: Option<Counter>) -> Option<bool> {
        let waiter = self.critical(|state, _| match state.free.checked_sub(1) {
            Some(rest) => {
                state.free = rest;
                None
            }
            None if matches!(patience, Patience::Task) => {
                Some(state.waiters.enqueue_task(&mut state.queue))
            }
            None => Some(state.waiters.enqueue_thread(&mut state.queue)),
        });
        match waiter {
            None => Some(false),
            Some(waiter) => {
                self.turn(WaitForPermit(waiter, counter), patience).await.ok().map(|()| true)
            }
        }
    }
    pub(super) fn take_as_thread(&self, deadline: Deadline) -> Option<bool> {
        now(self.take(Patience::Thread(deadline)))
    }
    pub(super) fn take_counting(&self, deadline: Deadline, counter: Counter) -> Option<bool> {
        now(self.take_by(Patience::Thread(deadline), Some(counter)))
    }
    /// Waits for a permit, leaves it to the others, and waits for another one.
    pub(super) fn take_the_second(&self) {
        let waiter = self.critical(|state, _| state.waiters.enqueue_thread(&mut state.queue));
        let wait = WaitForSecond { waiter, has_left_one: false };
        assert!(now(self.turn(wait, Patience::Thread(Deadline::Never))).is_ok());
    }
    pub(super) fn clock(&self) -> &Clock {
        self.lock.clock()
    }
}

impl ClockListener for Permits {
    fn advanced(&self) {
        self.lock.clock_advanced(|state| state.waiters.threads());
    }
}
