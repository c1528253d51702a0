//! Tasks that a runtime refuses, one after the other: at each place that spawns one, the pool goes on without it.

use crate::common::locked;
use crate::shared::SECOND;
use crate::shared::woken::{Sleep, Woken};
use crate::steps::{Rig, Step, rig_on};
use cabrank::Clock;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The fate of a task that the runtime does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// `spawn` panics.
    Panics,
    /// The task is dropped.
    Drops,
    /// The task is kept, and dropped when the test ends it.
    Keeps,
}

/// A runtime that does not take its `nth` task after the pool was built, and takes all others.
#[derive(Clone)]
struct Refuses {
    woken: Woken,
    nth: usize,
    how: Refusal,
    spawned: Arc<AtomicUsize>,
    /// How many tasks the build spawned.
    by_build: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<BoxFuture<()>>>>,
    /// From now on it takes all.
    takes_all: Arc<AtomicBool>,
}

impl Refuses {
    fn new(nth: usize, how: Refusal) -> Self {
        let by_build = Arc::new(AtomicUsize::new(usize::MAX));
        let (spawned, kept, takes_all) = Default::default();
        Refuses { woken: Woken::eager(), nth, how, spawned, by_build, kept, takes_all }
    }
    fn takes_all(&self) {
        self.takes_all.store(true, SeqCst);
        let kept = std::mem::take(&mut *locked(&self.kept));
        drop(kept);
    }
}

impl Runtime for Refuses {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        let before = self.spawned.fetch_add(1, SeqCst);
        let is_nth = before.checked_sub(self.by_build.load(SeqCst)) == Some(self.nth);
        if !is_nth || self.takes_all.load(SeqCst) {
            return self.woken.spawn(task);
        }
        match self.how {
            Refusal::Panics => resume_unwind(Box::new("no more tasks")),
            Refusal::Drops => drop(task),
            Refusal::Keeps => locked(&self.kept).push(task),
        }
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        self.woken.sleep_until(at)
    }
}

/// Runs a scenario with each of its tasks refused, in each way, until it spawns no more tasks.
fn at_each_place(scenario: impl Fn(&Rig, &Refuses)) {
    for how in [Refusal::Panics, Refusal::Drops, Refusal::Keeps] {
        for nth in 0.. {
            assert!(nth < 100, "it spawns tasks without end");
            let runtime = Refuses::new(nth, how);
            let rig = rig_on(
                |b| b.max_total(2).max_idle_time(SECOND).clock(Clock::monotonic()),
                runtime.clone(),
            );
            let by_build = runtime.spawned.load(SeqCst);
            runtime.by_build.store(by_build, SeqCst);
            scenario(&rig, &runtime);
            let spawned = runtime.spawned.load(SeqCst) - by_build;
            is_whole(&rig, &runtime, &format!("{how:?} {nth}"));
            if spawned <= nth {
                assert!(nth > 0, "it spawns a task");
                break;
            }
        }
    }
}

/// Asserts that nothing is lost: each place can be lent, and a close ends.
#[track_caller]
fn is_whole(rig: &Rig, runtime: &Refuses, when: &str) {
    rig.steps.go_on("create");
    runtime.takes_all();
    runtime.woken.run();
    let mut borrows = [rig.begin(), rig.begin()];
    runtime.woken.run();
    let lent = borrows.each_mut().map(|(task, got)| {
        got.take().or_else(|| task.poll()).unwrap_or_else(|| panic!("{when}: a resource"))
    });
    assert_eq!(rig.counts(), (2, 0, 2), "{when}");
    drop(lent);
    rig.pool.close();
    runtime.woken.run();
    assert!(rig.pool.wait_closed(Duration::ZERO), "{when}");
    assert_eq!((rig.steps.alive(), rig.steps.held()), (0, 0), "{when}");
}

/// The tasks are those of the creation, of its limit, and of the time when it is overdue.
#[test]
fn a_creation_that_its_borrower_leaves() {
    at_each_place(|rig, runtime| {
        rig.steps.on("create", Step::Held);
        let (left, served) = (rig.waits(), rig.waits());
        drop(left);
        runtime.woken.run();
        rig.steps.go_on("create");
        runtime.woken.run();
        drop(served);
        runtime.woken.run();
    });
}

#[test]
fn a_creation_that_is_overdue() {
    at_each_place(|rig, runtime| {
        rig.steps.on("create", Step::Held);
        drop((rig.waits(), rig.waits()));
        runtime.woken.run();
        rig.steps.hangs();
        let third = rig.begin();
        runtime.woken.pass(4 * SECOND);
        drop(third);
        runtime.woken.run();
        // A call that hangs for ever ends by its time.
        runtime.woken.pass(30 * SECOND);
    });
}

#[test]
fn an_addition_that_is_cancelled() {
    at_each_place(|rig, runtime| {
        rig.steps.on("create", Step::Held);
        drop(rig.adds());
        runtime.woken.run();
        rig.steps.go_on("create");
        runtime.woken.run();
    });
}

/// The minimum is filled by the next due work.
#[test]
fn a_refill_that_does_not_start() {
    at_each_place(|rig, runtime| {
        // A failure to start is reported, and not returned.
        rig.pool.set_min_idle(1).expect("valid");
        runtime.woken.run();
        drop(rig.begin());
        runtime.woken.run();
        rig.pool.set_min_idle(0).expect("valid");
    });
}
