//! The part that all clones of an interlock share, with its critical sections and waits.

use super::modes::{Asker, Outcome, Step};
use super::state::{SLOW, State};
use super::vitals::Place;
use super::world::World;
use crate::clock::{ClockListener, Deadline};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
#[cfg(any(test, debug_assertions))]
use crate::section::Invariant;
use crate::section::{Guarded, Lock, Patience, Wait, now};
use crate::sync::Word;
use crate::user_code::{contain, drop_contained};
use std::mem::take;
use std::sync::PoisonError;
use std::time::Duration;

pub(crate) struct Inner {
    /// The number of running owners, or `SLOW`: then the other bits do not count.
    pub(super) word: Word,
    pub(super) state: Lock<State>,
    pub(super) world: World,
    /// Unused places. The lock guards only a push or a pop.
    pub(super) spares: std::sync::Mutex<Vec<Place>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    Never,
    Until(Deadline),
    Forever,
}

impl Limit {
    pub(super) fn asker(self) -> Asker {
        match self {
            Limit::Never => Asker::Impatient,
            Limit::Until(_) | Limit::Forever => Asker::Thread,
        }
    }
    pub(super) fn patience(self) -> Patience {
        match self {
            Limit::Never => Patience::None,
            Limit::Until(deadline) => Patience::Thread(deadline),
            Limit::Forever => Patience::Thread(Deadline::Never),
        }
    }
    pub(super) fn deadline(self) -> Deadline {
        match self {
            Limit::Until(deadline) => deadline,
            Limit::Never | Limit::Forever => Deadline::Never,
        }
    }
}

/// User code to run after the lock.
#[derive(Default)]
pub(crate) struct After {
    wakes: Vec<Wake>,
    withdrawn: Vec<Wake>,
    late: Vec<Wake>,
}

impl Guarded for Inner {
    type State = State;
    type Effects = After;
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<State>] = super::invariants::ALL;

    fn lock(&self) -> &Lock<State> {
        &self.state
    }
    fn effects(&self) -> After {
        After::default()
    }
    fn settle(&self, state: &mut State, fx: &mut After) {
        if state.slow {
            state.settle();
            state.speed_up(&self.word);
        }
        fx.wakes.append(&mut state.wakes);
        fx.withdrawn.append(&mut state.withdrawn);
        fx.late.append(&mut state.late);
    }
    fn run(&self, fx: &mut After) {
        for wake in take(&mut fx.wakes) {
            // A waker that panics must not stop the other wake-ups.
            let _ = contain(|| wake.wake());
        }
        take(&mut fx.withdrawn).into_iter().for_each(drop_contained);
        // These run hooks, so they come last.
        for late in take(&mut fx.late) {
            let _ = contain(|| late.wake());
        }
    }
}

/// A queued owner's wait for its turn. A drop has no effect here: the owner's guards see to the rest.
pub(super) struct Queued(pub(super) Key);

impl Wait<Inner> for Queued {
    type Outcome = Outcome;
    /// Whether the owner has to wait for its share.
    type GivenUp = Step;

    fn take(&mut self, state: &mut State, _: &mut After) -> Option<Outcome> {
        state.owners[self.0.index()].outcome.take()
    }
    fn wake<'s>(&self, state: &'s mut State) -> &'s mut Wake {
        let owner = &mut state.owners[self.0.index()];
        owner.wake.as_mut().expect("a queued owner can be woken")
    }
    fn give_up(&mut self, state: &mut State, _: &mut After) -> Step {
        state.cancel(self.0, Asker::Thread)
    }
    fn cancel(self, _: &Inner) {}
}

pub(super) enum Waited {
    Granted,
    Forfeited,
    /// The deadline passed. The owner may have to wait for its share.
    TimedOut(Step),
}

impl Inner {
    /// Runs a critical section in a slow period.
    pub(super) fn slowly<R>(&self, section: impl FnOnce(&mut State) -> R) -> R {
        self.critical(|state, _| {
            state.slow_down(&self.word);
            section(state)
        })
    }

    /// Counts one more owner in the word. Returns false in a slow period.
    #[inline]
    pub(super) fn enter_fast(&self) -> bool {
        let mut count = self.word.guess();
        while count & SLOW == 0 {
            match self.word.exchange(count, count + 1) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }
    #[inline]
    pub(super) fn leave_fast(&self) -> bool {
        // The leaving owner is in the number: it is at least 1, or `SLOW`.
        let mut count = self.word.guess().max(1);
        while count & SLOW == 0 {
            match self.word.exchange(count, count - 1) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    pub(super) fn wait(&self, key: Key, deadline: Deadline) -> Waited {
        match now(self.turn(Queued(key), Patience::Thread(deadline))) {
            Ok(Outcome::Granted) => Waited::Granted,
            Ok(Outcome::Forfeited) => Waited::Forfeited,
            Err(step) => Waited::TimedOut(step),
        }
    }
    pub(super) async fn turn_of_task(&self, key: Key) -> Outcome {
        let outcome = self.turn(Queued(key), Patience::Task).await;
        outcome.unwrap_or_else(|_| unreachable!("a task has no deadline"))
    }
    /// Blocks until the share is back, without a limit: the sections under way end.
    pub(super) fn wait_for_share(&self, key: Key, step: Step) {
        if step == Step::Wait {
            // If it is forfeited, its next request fails.
            self.wait(key, Deadline::Never);
        }
    }

    pub(super) fn deadline(&self, timeout: Duration) -> Limit {
        Limit::Until(self.state.clock().deadline(timeout))
    }

    pub(super) fn register(&self) -> Place {
        self.critical(|state, _| state.register())
    }
    pub(super) fn spare(&self) -> Option<Place> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
    pub(super) fn keep(&self, place: Place) {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner).push(place);
    }
}

impl ClockListener for Inner {
    fn advanced(&self) {
        self.state.clock_advanced(|state| {
            let queued = state.owners.iter().filter(|(_, owner)| owner.mode.is_queued());
            let threads = queued.flat_map(|(_, owner)| {
                let watchers = owner.watchers.iter();
                let watchers = watchers.filter_map(|(_, watcher)| watcher.wake.thread());
                watchers.chain([&owner.condvar]).cloned()
            });
            threads.collect()
        });
    }
}
