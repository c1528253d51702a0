//! The end of the runtime in which a pool creates, and of its timers.

use crate::common::locked;
use crate::creations::{Hand, number};
use crate::runtimes::HOUR;
use crate::shared::task::block_on;
use crate::shared::woken::{Sleep, Woken};
use crate::shared::{SECOND, end_the_run_when_the_library_panics};
use crate::steps::{Step, Steps, begin_borrow, rig_on};
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{Async, BorrowError, Failure, KeyedResourcePool};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Instant;
/// How a runtime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It drops its tasks, and those that it is given.
    Drops,
    /// Its `spawn` panics. The tasks that it has go on.
    Panics,
}

/// A runtime that refuses tasks while the test says so.
#[derive(Clone)]
struct Ends(Woken, Arc<Mutex<Option<End>>>, Arc<AtomicUsize>);

impl Runtime for Ends {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        let end = *locked(&self.1);
        if end.is_some() {
            self.2.fetch_add(1, SeqCst);
        }
        match end {
            None => self.0.spawn(task),
            Some(End::Drops) => drop(task),
            Some(End::Panics) => resume_unwind(Box::new("no more tasks")),
        }
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        self.0.sleep_until(at)
    }
}

/// The runtime dropped the maintenance's tasks, and takes others: what is returned then is evicted, however soon that is.
#[test]
fn the_next_runtime_evicts_what_is_returned_on_it() {
    let runtime = Ends(Woken::eager(), Arc::default(), Arc::default());
    let rig = rig_on(|b| b.max_idle_time(SECOND), runtime.clone());
    drop(rig.lend());
    assert_eq!(runtime.0.tasks(), 1, "it waits for the eviction");
    let lent = rig.lend();
    runtime.0.forget_all();
    rig.clock.advance(SECOND / 4);
    drop(lent);
    assert_eq!(runtime.0.tasks(), 1);
    assert_eq!(*locked(&rig.events), [""; 0], "it has started");
}

/// A runtime that takes no task for long: the maintenance says so once, however it refuses.
#[test]
fn a_maintenance_that_does_not_start_says_so_once() {
    for end in [End::Drops, End::Panics] {
        let runtime = Ends(Woken::eager(), Arc::default(), Arc::default());
        let rig = rig_on(|b| b.max_idle_time(SECOND), runtime.clone());
        let lent = rig.lend();
        let said = || {
            let all = locked(&rig.events);
            all.iter().filter(|event| event.starts_with("MaintenanceNotStarted")).count()
        };
        *locked(&runtime.1) = Some(end);
        runtime.0.forget_all();
        drop(lent);
        for _ in 0..5 {
            rig.clock.advance(SECOND);
            drop(rig.lend());
        }
        assert_eq!(said(), 1, "{end:?}");
        *locked(&runtime.1) = None;
        drop(rig.lend());
        *locked(&runtime.1) = Some(end);
        runtime.0.forget_all();
        drop(rig.lend());
        assert_eq!(said(), 2, "{end:?}: it had started");
    }
}

/// While a runtime takes no tasks, borrowers create for themselves, and ask it each time. Once it does, the pool creates.
#[test]
fn a_runtime_that_ends_may_come_back() {
    for end in [End::Drops, End::Panics] {
        for waits in [true, false] {
            let runtime = Ends(Woken::eager(), Arc::default(), Arc::default());
            let rig = rig_on(|b| b.clock(cabrank::Clock::monotonic()), runtime.clone());
            rig.steps.on("create", Step::Held);
            // A creation is in flight when the runtime ends.
            let early = waits.then(|| rig.waits());
            *locked(&runtime.1) = Some(end);
            if end == End::Drops {
                runtime.0.forget_all();
            }
            let mut all: Vec<_> = early.into_iter().collect();
            all.extend([rig.waits(), rig.waits()]);
            all.iter_mut().for_each(|task| assert!(task.poll().is_none(), "{end:?}"));
            assert_eq!(*locked(&rig.events), ["RuntimeEnded"], "{end:?}, {waits}");
            // Each waiter creates, also beside a task that the runtime still has.
            let ordered = usize::from(waits && end == End::Panics);
            let held = all.len() + ordered;
            assert_eq!(rig.steps.held(), held);
            let asked = runtime.2.load(SeqCst);
            drop(rig.waits());
            assert_eq!((runtime.2.load(SeqCst), rig.steps.held()), (asked + 1, held));
            // The runtime takes tasks again. The next borrower still creates for itself, and asks.
            *locked(&runtime.1) = None;
            drop(rig.waits());
            runtime.0.run();
            assert_eq!(rig.steps.held(), held);
            drop(rig.waits());
            let now = if ordered == 0 { held + 1 } else { held };
            assert_eq!(rig.steps.held(), now, "{end:?}, {waits}: the pool creates");
            rig.steps.go_on("create");
            runtime.0.run();
            assert!(all.iter_mut().all(|task| task.poll().is_some_and(|got| got.is_ok())));
            // It ends again, and says so again.
            *locked(&runtime.1) = Some(end);
            runtime.0.forget_all();
            rig.pool.clear();
            drop(rig.begin());
            assert_eq!(*locked(&rig.events), ["RuntimeEnded"; 2], "{end:?}, {waits}");
        }
    }
}

/// The end shows in the call for one key. The waiters of another create then, also where `max_creating` kept them waiting.
#[test]
fn the_end_of_the_runtime_is_known_to_all_keys() {
    end_the_run_when_the_library_panics();
    let (steps, runtime) = (Steps::default(), Ends(Woken::eager(), Arc::default(), Arc::default()));
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_creating(1);
    let pool = pool.activate_timeout(SECOND).build_on(runtime.clone()).expect("a valid pool");
    assert!(block_on(pool.borrow_async(&"a")).is_ok());
    steps.on("create", Step::Held);
    let mut waits = ["b", "b", "c"].map(|key| begin_borrow(&pool, key));
    assert_eq!(steps.begun(), 2, "one for the two keys");
    *locked(&runtime.1) = Some(End::Panics);
    steps.on("activate", Step::Held);
    // Its time limit needs a timer.
    let _activates = begin_borrow(&pool, "a");
    assert_eq!(waits.each_ref().map(|task| task.wakes()), [1; 3]);
    assert!(waits.iter_mut().all(|task| task.poll().is_none()));
    assert_eq!(steps.begun(), 5, "each creates for itself");
}

/// The time between a creation and its borrower's next poll is no idle time. Otherwise a task that is polled late would
/// order one resource after the other.
#[test]
fn what_was_ordered_does_not_expire_before_its_borrower_comes() {
    let hand = Hand::lazy();
    let rig = rig_on(|b| b.max_idle_time(SECOND), hand.clone());
    let mut waits = rig.waits();
    hand.run();
    assert_eq!(waits.wakes(), 1);
    rig.clock.advance(2 * SECOND);
    assert_eq!(number(&mut waits), Some(1));
}

/// A runtime that refuses the timer of a creation, and takes all other tasks, limits the later creations.
#[test]
fn a_refused_timer_leaves_later_creations_their_limits() {
    for nth in [1, 2] {
        let runtime = RefusesOne(Woken::eager(), Arc::default(), nth);
        let rig = rig_on(|b| b.max_total(1).clock(cabrank::Clock::monotonic()), runtime.clone());
        rig.steps.on("create", Step::Held);
        drop(rig.waits());
        rig.steps.go_on("create");
        runtime.0.run();
        rig.pool.clear();
        assert_eq!(*locked(&rig.events), ["RuntimeEnded"]);
        // Some borrow later, the pool knows that the runtime takes tasks.
        for _ in 0..3 {
            drop(rig.begin());
            runtime.0.run();
            rig.pool.clear();
        }
        rig.steps.on("create", Step::Held);
        let mut hangs = rig.waits();
        runtime.0.pass(HOUR);
        let why = hangs.poll().map(|got| got.map(drop));
        assert_eq!(why, Some(Err(BorrowError::Create(Failure::TimedOut))), "task {nth}");
    }
}

/// A runtime that refuses one task, and takes all others.
#[derive(Clone)]
struct RefusesOne(Woken, Arc<AtomicUsize>, usize);

impl Runtime for RefusesOne {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        if self.1.fetch_add(1, SeqCst) == self.2 {
            resume_unwind(Box::new("too many tasks"));
        }
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        self.0.sleep_until(at)
    }
}

/// A call whose timer was lost with the runtime goes on without a limit. It does not end the runtime again that has come back.
#[test]
fn a_limit_that_was_lost_ends_the_runtime_once() {
    let runtime = Ends(Woken::eager(), Arc::default(), Arc::default());
    let configure =
        |b: crate::steps::Building| b.activate_timeout(HOUR).clock(cabrank::Clock::monotonic());
    let rig = rig_on(configure, runtime.clone());
    rig.steps.on("activate", Step::Held);
    let (mut old, got) = rig.begin();
    assert!(got.is_none());
    runtime.0.run();
    assert!(old.poll().is_none(), "it is being activated");
    *locked(&runtime.1) = Some(End::Drops);
    runtime.0.forget_all();
    assert!(old.poll().is_none());
    assert_eq!(*locked(&rig.events), ["RuntimeEnded"]);
    // A borrower that creates for itself asks the runtime, which is back.
    *locked(&runtime.1) = None;
    drop(rig.waits());
    runtime.0.run();
    assert!(old.poll().is_none());
    assert_eq!(*locked(&rig.events), ["RuntimeEnded"], "it has ended once");
    // The pool creates again.
    let begun = rig.steps.begun();
    rig.steps.on("create", Step::Held);
    let waits = rig.waits();
    runtime.0.run();
    drop(waits);
    assert_eq!(
        (rig.steps.begun(), rig.steps.held()),
        (begun + 1, 1),
        "an order outlives its borrower"
    );
}
