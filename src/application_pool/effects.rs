//! What a critical section leaves to be done after the lock is released.
//!
//! Everything that runs foreign code, or drops something foreign, is put here under the lock and
//! carried out in order without it (rule 1: no foreign code under a lock). Each effect is contained: a
//! panic in one keeps none of the others from happening.

use super::error::SpawnError;
use super::event::Event;
use super::process_info::Entry;
use super::spawner::{CancelToken, Process, ShutDown, Spawner};
use super::spawning::SpawnOrder;
use super::{Inner, WorksFor};
use crate::collections::wait_queue::Wake;
use crate::sync::Arc;
use crate::user_code::{UserValue, contain, drop_contained};

pub(crate) enum Effect<S: Spawner> {
    /// A waiter has its outcome.
    Wake(Wake),
    /// A process has left the pool: shut it down, and drop it.
    Dispose(Arc<Entry<S>>, ShutDown),
    /// A process was spawned that nobody wants any more (erratum E12).
    Unwanted(UserValue<S::Process>),
    /// The pool's last reference to an error that its spawner made.
    Bury(SpawnError),
    Cancel(CancelToken),
    Event(Event),
    Spawn(SpawnOrder),
    /// Something is due earlier than the cleaner thinks.
    WakeCleaner,
    /// The pool is closed, and a process or spawn has ended.
    NotifyClosed,
}

/// A list of effects, in order, whose first needs no allocation: handing a process over has just one.
pub(crate) struct Effects<S: Spawner> {
    first: Option<Effect<S>>,
    rest: Vec<Effect<S>>,
    /// How many of them shut a process down.
    pub(crate) disposals: usize,
    /// Nobody looks: no event is made.
    pub(crate) observed: bool,
}

impl<S: Spawner> Effects<S> {
    pub(crate) fn new(observed: bool) -> Self {
        Effects { first: None, rest: Vec::new(), disposals: 0, observed }
    }
    pub(crate) fn push(&mut self, effect: Effect<S>) {
        if matches!(effect, Effect::Dispose(..) | Effect::Unwanted(_)) {
            self.disposals += 1;
        }
        match self.first {
            None => self.first = Some(effect),
            Some(_) => self.rest.push(effect),
        }
    }
    pub(crate) fn event(&mut self, event: impl FnOnce() -> Event) {
        if self.observed {
            self.push(Effect::Event(event()));
        }
    }
    /// Takes the order to spawn for this group out of the list, for a thread that spawns already.
    pub(crate) fn take_order(
        &mut self,
        group: crate::collections::slab_list::Key,
    ) -> Option<SpawnOrder> {
        let is_it = |e: &Effect<S>| matches!(e, Effect::Spawn(order) if order.group == group);
        let found = if self.first.as_ref().is_some_and(is_it) {
            self.first.take()
        } else {
            self.rest.iter().position(is_it).map(|at| self.rest.remove(at))
        };
        match found {
            Some(Effect::Spawn(order)) => Some(order),
            _ => None,
        }
    }

    /// Carries everything out. The lock is not held. By reference, for a copy would be made before anybody has
    /// looked whether there is something. Nothing is left that has allocated: what is left is to be forgotten.
    #[inline]
    pub(crate) fn run(&mut self, pool: &std::sync::Arc<Inner<S>>) {
        if self.first.is_some() || self.rest.capacity() > 0 {
            self.run_all(pool);
        }
    }
    #[cold]
    fn run_all(&mut self, pool: &std::sync::Arc<Inner<S>>) {
        let _works = WorksFor::pool(pool);
        for effect in self.first.take().into_iter().chain(std::mem::take(&mut self.rest)) {
            // What a panicking callee says has nobody to be told to; that it does not spread is what
            // counts.
            let _ = contain(|| effect.run(pool));
        }
        if self.disposals > 0 {
            pool.critical(|state, fx| {
                state.disposing -= self.disposals;
                state.notify_if_over(fx);
            });
        }
    }
}

impl<S: Spawner> Effect<S> {
    fn run(self, pool: &std::sync::Arc<Inner<S>>) {
        match self {
            Effect::Wake(wake) => wake.wake(),
            Effect::Dispose(entry, how) => {
                let _ = contain(|| entry.process.shut_down(how));
            }
            Effect::Unwanted(process) => {
                let _ = contain(|| process.shut_down(ShutDown::Drained));
            }
            Effect::Bury(error) => drop_contained(error),
            Effect::Cancel(token) => token.cancel(),
            Effect::Event(event) => {
                if let Some(observer) = &pool.observer {
                    let _ = contain(|| observer(&event));
                }
                drop_contained(event);
            }
            Effect::Spawn(order) => pool.start_spawner_thread(order),
            Effect::WakeCleaner => pool.wake_cleaner(),
            Effect::NotifyClosed => {
                pool.closed_signal.notify_all();
                pool.wake_cleaner();
            }
        }
    }
}
