//! The time that processes have to leave.
//!
//! A process drains from the moment when the pool detaches it. Its requests, its background work and its own end have one
//! deadline: the time of a drain later, or the end of the program's stop, if that comes first.

use cabrank::application_pool::Identifier;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The time of a drain, unless the program sets another one.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// The ends of processes and of their requests, as far as the others need to know them.
#[derive(Debug)]
pub(crate) struct Leaving {
    state: Mutex<State>,
    /// Notifies of each change, and of each process that is gone.
    pub(crate) changed: Notify,
}

#[derive(Debug)]
struct State {
    drain_time: Duration,
    stop: Option<Stop>,
    drains: HashMap<Identifier, Instant>,
}

/// The end of the program.
#[derive(Clone, Copy, Debug)]
struct Stop {
    begun: Instant,
    by: Instant,
}

impl Leaving {
    pub(crate) fn new() -> Self {
        let state = State { drain_time: DRAIN_TIME, stop: None, drains: HashMap::new() };
        Leaving { state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_drain_time(&self, time: Duration) {
        self.state().drain_time = time;
    }

    pub(crate) fn stop_by(&self, deadline: Instant) {
        let mut state = self.state();
        let begun = state.stop.map_or_else(Instant::now, |stop| stop.begun);
        state.stop = Some(Stop { begun, by: deadline });
        drop(state);
        self.changed.notify_waiters();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.state().stop.is_some()
    }

    /// Notes that a process drains. The first note counts.
    pub(crate) fn drains(&self, process: Identifier) {
        self.state().drains.entry(process).or_insert_with(Instant::now);
        self.changed.notify_waiters();
    }

    /// Returns the time since which a process is to leave: since it drains, or since the program's stop has begun.
    pub(crate) fn leaves_since(&self, process: Identifier) -> Option<Instant> {
        let state = self.state();
        let stop = state.stop.map(|stop| stop.begun);
        state.drains.get(&process).copied().into_iter().chain(stop).min()
    }

    pub(crate) fn drains_since(&self, process: Identifier) -> Option<Instant> {
        self.state().drains.get(&process).copied()
    }

    pub(crate) fn forget(&self, process: Identifier) {
        self.state().drains.remove(&process);
        self.changed.notify_waiters();
    }

    /// Returns the time when a process must be gone; `None`: it need not leave.
    pub(crate) fn deadline(&self, process: Identifier) -> Option<Instant> {
        let state = self.state();
        let drained = state.drains.get(&process).map(|since| *since + state.drain_time);
        drained.into_iter().chain(state.stop.map(|stop| stop.by)).min()
    }

    /// Waits until the program should have stopped.
    pub(crate) async fn overdue_at_stop(&self) {
        loop {
            let changed = self.changed.notified();
            let stop = self.state().stop;
            match stop {
                Some(stop) => return tokio::time::sleep_until(stop.by.into()).await,
                None => changed.await,
            }
        }
    }

    /// Waits until a process should have been gone.
    pub(crate) async fn overdue(&self, process: Identifier) {
        loop {
            let changed = self.changed.notified();
            let Some(deadline) = self.deadline(process) else {
                changed.await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(deadline.into()) => return,
                () = changed => {}
            }
        }
    }
}
