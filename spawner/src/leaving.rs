//! The time that processes have to leave.
//!
//! A process drains from the moment when the pool detaches it. Its requests, its background work and its own end have one
//! deadline. It is the time of a drain later, or the end of the program's stop, if that comes first. SIGKILL comes at the
//! deadline. A backtrace and SIGTERM come before it, in the [`Last`] part of the time.

use cabrank::application_pool::Identifier;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// The time of a drain, unless the program sets another one.
const DRAIN_TIME: Duration = Duration::from_secs(60);
/// The shortest and the longest last part of the time to leave, which is a tenth of it otherwise.
const LAST: [Duration; 2] = [Duration::from_secs(1), Duration::from_millis(2500)];

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

/// The last part of the time that a process has to leave: when signals reach a process that is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) backtrace: Instant,
    pub(crate) term: Instant,
    /// The deadline.
    pub(crate) kill: Instant,
}

impl Last {
    /// Returns the last part of the time from `begun` to `by`.
    fn of(begun: Instant, by: Instant) -> Last {
        let whole = by.saturating_duration_since(begun);
        let last = (whole / 10).clamp(LAST[0], LAST[1]).min(whole / 2);
        Last { backtrace: by - last, term: by - last * 4 / 5, kill: by }
    }
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

    /// Returns the last part of the time that a process has; `None`: it need not leave.
    pub(crate) fn last(&self, process: Identifier) -> Option<Last> {
        let state = self.state();
        let since = state.drains.get(&process);
        let drained = since.map(|since| Last::of(*since, *since + state.drain_time));
        let stopped = state.stop.map(|stop| Last::of(stop.begun, stop.by));
        drained.into_iter().chain(stopped).min_by_key(|last| last.kill)
    }

    /// Waits until a process is to get one of the last signals.
    pub(crate) async fn until(&self, process: Identifier, signal: impl Fn(Last) -> Instant) {
        loop {
            let changed = self.changed.notified();
            let Some(last) = self.last(process) else {
                changed.await;
                continue;
            };
            tokio::select! {
                () = tokio::time::sleep_until(signal(last).into()) => return,
                () = changed => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_ends_at_the_deadline_and_is_a_tenth_of_the_time() {
        let begun = Instant::now();
        for (whole, backtrace, term) in [
            (60_000, 2500, 2000),
            (20_000, 2000, 1600),
            (4000, 1000, 800),
            (200, 100, 80),
            (0, 0, 0),
        ] {
            let by = begun + Duration::from_millis(whole);
            let before = |left| by - Duration::from_millis(left);
            let last = Last { backtrace: before(backtrace), term: before(term), kill: by };
            assert_eq!(Last::of(begun, by), last, "{whole}");
        }
    }
}
