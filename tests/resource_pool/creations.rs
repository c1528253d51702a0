//! Creations: without a runtime a borrower creates, and its creation ends with it; their time limits; and the end of the
//! runtime. `orders.rs` is about those that the pool orders.

use crate::common::locked;
use crate::runtimes::HOUR;
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::shared::woken::{Sleep, Woken};
use crate::steps::{Building, Got, Rig, Step, rig, rig_on};
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{BorrowError, Failure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::time::Instant;

/// A runtime that the test may shut down. It polls a task when it is spawned. Each timer is that of one task.
#[derive(Clone)]
pub(crate) struct Hand(pub(crate) Woken, Arc<AtomicBool>);

impl Default for Hand {
    fn default() -> Self {
        Hand(Woken::eager(), Arc::default())
    }
}

impl Runtime for Hand {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        if !self.1.load(SeqCst) {
            self.0.spawn(task);
        }
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        self.0.sleep_until(at)
    }
}

impl Hand {
    /// Returns a runtime that polls a task only when the test runs it.
    pub(crate) fn lazy() -> Self {
        Hand(Woken::default(), Arc::default())
    }
    /// Polls the woken tasks, and returns how many are left that have no timer.
    #[track_caller]
    pub(crate) fn run(&self) -> usize {
        self.0.run() - self.0.timers()
    }
    /// Lets twice the default `overdue_after` pass.
    pub(crate) fn overdue(&self) {
        self.0.pass(2 * SECOND);
    }
    pub(crate) fn shut_down(&self) {
        self.1.store(true, SeqCst);
        self.0.forget_all();
    }
    /// Takes tasks again.
    pub(crate) fn start(&self) {
        self.1.store(false, SeqCst);
    }
}

/// Returns a pool on a runtime, in which each creation hangs until the test lets it go on.
pub(crate) fn held_on_a_runtime(configure: impl FnOnce(Building) -> Building) -> (Rig, Hand) {
    let hand = Hand::default();
    let rig = rig_on(|b| configure(b).clock(cabrank::Clock::monotonic()), hand.clone());
    rig.steps.on("create", Step::Held);
    (rig, hand)
}

pub(crate) fn held(configure: impl FnOnce(Building) -> Building) -> Rig {
    let rig = rig(configure);
    rig.steps.on("create", Step::Held);
    rig
}

pub(crate) fn number(task: &mut Task<Got>) -> Option<usize> {
    let lent = task.poll()?.expect("a resource");
    Some(lent.number)
}

/// A creation holds a permit of the server's. Kept half-done, it would hold it for ever.
#[test]
fn a_creation_ends_with_its_borrower() {
    let rig = held(|b| b.max_active(1));
    let first = rig.waits();
    let mut second = rig.waits();
    assert_eq!((rig.steps.held(), rig.counts()), (1, (1, 0, 1)));
    drop(first);
    assert_eq!((rig.steps.held(), rig.counts()), (0, (1, 0, 1)));
    assert!(second.poll().is_none());
    assert_eq!((rig.steps.begun(), rig.steps.held()), (2, 1));
    rig.steps.go_on("create");
    assert_eq!(number(&mut second), Some(2));
    // The same for an addition, and for the maintenance.
    rig.pool.clear();
    rig.pool.set_min_idle(1).expect("valid");
    rig.steps.on("create", Step::Held);
    drop(rig.adds());
    let mut pass = rig.pass();
    assert!(pass.poll().is_none());
    drop(pass);
    assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
}

/// Ten hand-shakes hang, and their borrowers give up. Then the server is back.
#[test]
fn the_first_borrower_after_an_outage_is_served() {
    let limits: [fn(Building) -> Building; 2] = [|b| b.max_active(10), |b| b.max_total(10)];
    for limit in limits {
        let rig = held(limit);
        drop((0..10).map(|_| rig.waits()).collect::<Vec<_>>());
        rig.steps.go_on("create");
        assert_eq!(rig.lend().number, 11);
        // With a runtime, there is one creation in flight, and the next borrower waits for it until it is overdue.
        let (rig, hand) = held_on_a_runtime(limit);
        (0..10).for_each(|_| drop(rig.waits()));
        assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)));
        rig.steps.hangs();
        let mut first = rig.waits();
        hand.overdue();
        assert_eq!(number(&mut first), Some(2));
        // The ten waited together.
        let (rig, hand) = held_on_a_runtime(limit);
        drop((0..10).map(|_| rig.waits()).collect::<Vec<_>>());
        assert_eq!((rig.steps.held(), rig.counts()), (10, (0, 0, 10)));
        rig.steps.hangs();
        let mut first = rig.waits();
        hand.overdue();
        assert_eq!(number(&mut first), Some(11));
    }
}

/// A resource that comes back serves the oldest waiter. The creations go on, and serve the others.
#[test]
fn a_borrower_that_waits_for_a_creation_takes_what_comes_back_first() {
    let hand = Hand::default();
    let rig = rig_on(|b| b, hand.clone());
    let lent = rig.lend();
    rig.steps.on("create", Step::Held);
    let (mut first, mut second) = (rig.waits(), rig.waits());
    drop(lent);
    assert_eq!((first.wakes(), second.wakes()), (1, 0), "the older one");
    let lent = first.poll().expect("served").expect("a resource");
    assert_eq!((lent.number, rig.pool.num_active()), (1, 1));
    // Both creations go on, and the loans alone are active.
    assert_eq!((rig.steps.held(), rig.counts()), (2, (1, 0, 3)));
    rig.steps.go_on("create");
    assert_eq!(hand.run(), 0);
    assert_eq!(number(&mut second), Some(2), "what was ordered first");
    assert_eq!(rig.counts(), (1, 2, 3));
    drop(lent);
}

/// Without a runtime, each return would otherwise end a creation. The pool would not fill where loans are shorter than a
/// creation, and would begin one creation for each loan.
#[test]
fn a_pool_without_a_runtime_fills() {
    let rig = rig(|b| b.max_total(3));
    let lent = rig.lend();
    rig.steps.on("create", Step::Held);
    let (mut first, mut second) = (rig.waits(), rig.waits());
    drop(lent);
    for _ in 0..3 {
        assert_eq!(rig.lend().number, 1, "a newcomer takes what is idle");
        assert!(first.poll().is_none() && second.poll().is_none());
    }
    assert_eq!((rig.steps.begun(), rig.steps.held(), rig.counts()), (3, 2, (2, 1, 3)));
    rig.steps.go_on("create");
    assert_eq!((number(&mut first), number(&mut second)), (Some(2), Some(3)));
    assert_eq!(rig.counts(), (0, 3, 3));
}

/// It was granted a resource, and is cancelled before it picks it up: the next one gets it.
#[test]
fn a_grant_beside_a_creation_is_passed_on() {
    for fair in [true, false] {
        let rig = rig_on(|b| b.max_active(3).fair(fair), Hand::default());
        let lent = rig.lend();
        rig.steps.on("create", Step::Held);
        let (first, mut second) = (rig.waits(), rig.waits());
        drop(lent);
        assert_eq!(rig.counts(), if fair { (1, 0, 3) } else { (0, 1, 3) });
        drop(first);
        assert_eq!(second.wakes(), 1);
        assert_eq!(number(&mut second), Some(1));
        assert_eq!((rig.steps.held(), rig.counts()), (2, (0, 1, 3)));
    }
}

/// A resource comes back before the borrower's first poll of its creation has ended.
#[test]
fn a_creation_that_is_done_first_is_used() {
    let rig = rig(|b| b);
    let lent = rig.lend();
    rig.steps.on("create", Step::Held);
    let mut creates = rig.waits();
    rig.steps.go_on("create");
    assert_eq!(number(&mut creates), Some(2));
    drop(lent);
    assert_eq!(rig.counts(), (0, 2, 2));
}

/// The pool is closed between the grant and the pick-up.
#[test]
fn a_closed_pool_lends_nothing_beside_a_creation() {
    let hand = Hand::default();
    let rig = rig_on(|b| b, hand.clone());
    let lent = rig.lend();
    rig.steps.on("create", Step::Held);
    let mut creates = rig.waits();
    drop(lent);
    rig.pool.close();
    assert!(creates.poll().expect("refused").is_err());
    assert_eq!((hand.run(), rig.steps.held(), rig.counts()), (0, 0, (0, 0, 0)));
}

#[test]
fn a_creation_has_a_time_limit() {
    let (rig, hand) = held_on_a_runtime(|b| b.create_timeout(SECOND).max_total(2));
    let mut stays = rig.waits();
    drop(rig.waits());
    assert_eq!((hand.run(), rig.counts()), (2, (0, 0, 2)));
    hand.0.pass(SECOND);
    // The error of the first is that of the borrower, who waited. There is no borrower left for the second.
    assert_eq!(*locked(&rig.events), ["CreateFailed(TimedOut)"]);
    let why = stays.poll().expect("it took too long").map(drop).expect_err("no resource");
    assert_eq!(why, BorrowError::Create(Failure::TimedOut));
    assert_eq!((rig.steps.begun(), rig.steps.held(), rig.counts()), (2, 0, (0, 0, 0)));
}

#[test]
fn a_creation_without_a_time_limit_goes_on() {
    for (limit, ends) in [(None, false), (Some(30 * SECOND), true)] {
        let (rig, hand) = held_on_a_runtime(|b| b.create_timeout(limit));
        let mut creates = rig.waits();
        hand.0.pass(HOUR);
        assert_eq!(creates.poll().is_some(), ends, "{limit:?}");
    }
    // It has a limit by default.
    let (rig, hand) = held_on_a_runtime(|b| b);
    let mut creates = rig.waits();
    hand.0.pass(HOUR);
    assert!(creates.poll().is_some());
}

/// Its task ends too, before its time.
#[test]
fn a_timer_ends_with_its_call() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    let mut creates = rig.waits();
    assert_eq!((hand.0.run(), hand.0.timers()), (3, 2), "its limit, and when it is overdue");
    rig.steps.go_on("create");
    assert_eq!((hand.0.run(), hand.0.timers()), (0, 0));
    assert_eq!(number(&mut creates), Some(1));
}

/// The tasks of both are polled more often than they are woken.
#[test]
fn a_timer_ends_with_its_call_on_a_restless_runtime() {
    let runtime = Woken::restless();
    let rig = rig_on(|b| b.clock(cabrank::Clock::monotonic()), runtime.clone());
    rig.steps.on("create", Step::Held);
    let (mut creates, left) = (rig.waits(), rig.waits());
    drop(left);
    assert_eq!((runtime.run(), runtime.timers()), (6, 4));
    rig.steps.go_on("create");
    assert_eq!((runtime.run(), runtime.timers()), (0, 0));
    assert_eq!(number(&mut creates), Some(1));
    rig.pool.clear();
    rig.steps.on("create", Step::Held);
    let mut late = rig.waits();
    runtime.pass(HOUR);
    assert_eq!(late.poll().map(|got| got.is_err()), Some(true));
}

/// A timer wakes the waker of the latest poll.
#[test]
fn the_waker_of_a_time_limit_may_change() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    let mut creates = rig.waits();
    let mut later = Task::new(std::future::poll_fn(move |cx| {
        creates.poll_with(cx.waker()).map_or(Poll::Pending, Poll::Ready)
    }));
    assert!(later.poll().is_none());
    hand.0.pass(HOUR);
    assert_eq!(later.wakes(), 1);
    assert_eq!(later.poll().map(|got| got.is_err()), Some(true));
}

/// The first creation that the runtime drops says so. Then a borrower that creates awaits its own resource.
#[test]
fn a_pool_whose_runtime_has_ended_fills() {
    let hand = Hand::default();
    let rig = rig_on(|b| b, hand.clone());
    let lent = rig.lend();
    hand.shut_down();
    rig.steps.on("create", Step::Held);
    drop(rig.waits());
    let mut creates = rig.waits();
    drop(lent);
    assert_eq!((creates.wakes(), rig.steps.held(), rig.counts()), (0, 1, (1, 1, 2)));
    rig.steps.go_on("create");
    assert_eq!(number(&mut creates), Some(3));
}

/// A maintenance that worked again, and ended again, says so again.
#[test]
fn maintenance_that_ends_twice_says_so_twice() {
    let hand = Hand::default();
    let rig = rig_on(|b| b.max_idle_time(SECOND), hand.clone());
    for number in 1..=2 {
        drop(rig.lend());
        hand.run();
        hand.shut_down();
        for _ in 0..3 {
            rig.clock.advance(2 * SECOND);
            drop(rig.lend());
        }
        let said =
            |kind| locked(&rig.events).iter().filter(|event| event.starts_with(kind)).count();
        assert_eq!(["MaintenanceNotStarted", "RuntimeEnded"].map(said), [number; 2]);
        hand.start();
        rig.clock.advance(2 * SECOND);
    }
}

/// The runtime has ended, and drops what it is given: the listener learns it once.
#[test]
fn maintenance_that_ended_with_its_runtime_says_so() {
    let hand = Hand::default();
    let rig = rig_on(|b| b.max_idle_time(SECOND).min_idle(1), hand.clone());
    hand.run();
    assert_eq!(rig.pool.num_idle(), 1);
    hand.shut_down();
    for _ in 0..3 {
        rig.clock.advance(2 * SECOND);
        drop(rig.lend());
    }
    let said = locked(&rig.events).clone();
    let (tasks, end): (Vec<_>, Vec<_>) =
        said.iter().partition(|event| event.starts_with("MaintenanceNotStarted"));
    assert!((1..=2).contains(&tasks.len()), "once for each task: {said:?}");
    assert_eq!(end, ["RuntimeEnded"]);
    // No expired resource was lent.
    assert!(rig.steps.begun() > 3);
}

/// Under a paused time each timer ends at once, though the pool's time has not come.
#[test]
fn timers_that_end_early_do_not_spin() {
    let hand = Hand::default();
    let clock = cabrank::Clock::monotonic();
    let rig = rig_on(|b| b.clock(clock).max_idle_time(100 * SECOND), hand.clone());
    drop(rig.lend());
    hand.0.run();
    assert_eq!([(); 2].map(|()| hand.0.pass(HOUR)), [1, 1], "each poll ends");
    assert_eq!(rig.counts(), (0, 1, 1));
}
