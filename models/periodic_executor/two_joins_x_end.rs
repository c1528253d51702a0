//! The end of a run meets two that wait for it.
//!
//! Guards that `Run::try_to_end` gives the outcome to each join, and wakes each: an end that wakes one join leaves the
//! other for ever. Asserted: both joins return the end of the run, whether they came before it or after.

use crate::AsyncPeriodicExecutor;
use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::{BoxFuture, Runtime};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Two threads join an executor whose target stops.
#[test]
fn periodic_two_joins_x_end() {
    let ways = ["the run had ended", "the run had not ended"];
    explore(Model("periodic_two_joins_x_end", 23_751), &ways, move |outcomes| {
        let executor = builder().build(|| Flow::Stop);
        executor.open().expect("a thread");
        let theirs = executor.clone();
        let other = spawn(move || theirs.join());
        let had_ended = executor.phase() == Phase::Stopped;
        assert_eq!(executor.join(), Ok(Joined::Finished));
        assert_eq!(other.join().expect("no panic"), Ok(Joined::Finished));
        outcomes.note(ways[usize::from(!had_ended)]);
    });
}

/// Two tasks join an executor while a thread polls its task to the end.
#[test]
fn periodic_two_joining_tasks_x_end() {
    let ways = ["both came before the end", "one came before the end", "both came after the end"];
    explore(Model("periodic_two_joining_tasks_x_end", 204), &ways, move |outcomes| {
        let runtime = Keeps::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
        let executor = builder.clock(ManualClock::new().clock()).build(|| {
            // The target's future is ready, so that the first poll ends the run.
            std::future::ready(Flow::Stop)
        });
        executor.open().expect("a task");
        let task = runtime.0.lock().expect("no panic").take().expect("it was spawned");
        let thread = spawn(move || block_on(task));
        let mut ended = 0;
        let joins = [(); 2].map(|()| {
            let mut join = Box::pin(executor.join());
            match poll_once(join.as_mut()) {
                std::task::Poll::Pending => Some(join),
                std::task::Poll::Ready(joined) => {
                    assert_eq!(joined, Ok(Joined::Finished));
                    ended += 1;
                    None
                }
            }
        });
        // The younger one waits first, so that it needs a wake-up of its own.
        for join in joins.into_iter().rev().flatten() {
            assert_eq!(block_on(join), Ok(Joined::Finished));
        }
        thread.join().expect("no panic");
        outcomes.note(ways[ended]);
    });
}

/// A runtime that keeps its task, which the model polls.
#[derive(Clone, Default)]
struct Keeps(Arc<Mutex<Option<BoxFuture<()>>>>);

impl Runtime for Keeps {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        *self.0.lock().expect("no panic") = Some(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}
