//! Two threads open at once, and the first start fails, or every start.
//!
//! Each model asserts that a thread whose open succeeded finds the executor open, or learns from a join that it could
//! not be started.

use crate::AsyncPeriodicExecutor;
use crate::models::periodic_executor::rig::*;
use crate::periodic_executor::{BoxFuture, OpenError, Runtime};
use std::time::Instant;

/// A runtime with a thread for each task. Its first `times` spawns panic.
struct Fails {
    times: usize,
    tries: Count,
}

impl Runtime for Fails {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        if self.tries.up() <= self.times {
            scripted_panic();
        }
        crate::kernel::sync::thread::start("task", None, move || block_on(task)).expect("a thread");
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// Opens on two threads. Returns the number of failed opens, the number of starts, and the result of a join
/// afterwards.
fn two_opens(times: usize, calls: &Count) -> (usize, usize, Result<Joined, JoinError>) {
    let (tries, counted) = (Count::default(), calls.clone());
    let runtime = Fails { times, tries: tries.clone() };
    let executor = AsyncPeriodicExecutor::builder(None, runtime)
        .clock(ManualClock::new().clock())
        .unregistered()
        .build(move || {
            counted.up();
            std::future::ready(Flow::Stop)
        });
    let open = |executor: &AsyncPeriodicExecutor<Fails>| match executor.open() {
        Ok(()) => 0,
        Err(OpenError::NotStarted(_)) => 1,
        Err(other) => panic!("{other}"),
    };
    let theirs = executor.clone();
    let opener = spawn(move || open(&theirs));
    let mine = open(&executor);
    let failed = mine + opener.join().expect("no panic");
    let joined = block_on(executor.join());
    (failed, tries.get(), joined)
}

/// The first start fails.
///
/// Guards the second try in `Core::open`: without it the executor stays closed, though the other thread's open
/// returned success.
#[test]
fn periodic_open_x_failing_open() {
    let ways = ["for both", "one after the other"];
    explore(Model("periodic_open_x_failing_open", 1_400), &ways, move |outcomes| {
        let calls = Count::default();
        let (failed, tries, joined) = two_opens(1, &calls);
        assert_eq!((tries, joined), (2, Ok(Joined::Finished)));
        assert_eq!(calls.get(), 1);
        outcomes.note(ways[failed]);
    });
}

/// Every start fails.
///
/// Guards that `Core::open` tries only once more: otherwise it tries for as long as other threads open.
#[test]
fn periodic_open_x_hopeless_open() {
    let ways = ["one open fails, the join reports the other", "each open fails"];
    explore(Model("periodic_open_x_hopeless_open", 36), &ways, move |outcomes| {
        let (failed, tries, joined) = two_opens(2, &Count::default());
        assert_eq!((tries, joined), (2, Ok(Joined::Abandoned)));
        outcomes.note(ways[failed - 1]);
    });
}
