//! Destructions in a pool with a runtime: no caller waits for one, and no destruction for another.

use crate::common::locked;
use crate::creations::{Hand, number};
use crate::orders::keyed;
use crate::runtimes::{HOUR, MOMENT};
use crate::shared::task::{Task, block_on};
use crate::shared::{SECOND, end_the_run_when_the_library_panics};
use crate::steps::{Building, Rig, Step, begin_borrow, rig_on};
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{Async, AsyncResourceFactory, Borrowed, ResourcePool};
use cabrank::{Clock, ManualClock};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns a pool on a runtime with idle resources, whose destructions wait until the test lets them go on.
fn idle(number: usize, configure: impl FnOnce(Building) -> Building) -> (Rig, Hand) {
    let hand = Hand::default();
    let rig = rig_on(|b| configure(b).clock(Clock::monotonic()), hand.clone());
    let lent: Vec<_> = (0..number).map(|_| rig.lend()).collect();
    drop(lent);
    rig.steps.on("destroy", Step::Held);
    rig.steps.calls();
    (rig, hand)
}

/// Runs the destructions that may go on, also if they take so long that the destroyer yields.
fn run(hand: &Hand) -> usize {
    (0..10).fold(0, |_, _| hand.0.pass(MOMENT))
}

/// Each caller that lets a resource leave goes on, and the resource keeps its place.
#[test]
fn no_caller_waits_for_a_destruction() {
    type Leave = fn(&Rig);
    let ways: [(&str, Leave); 6] = [
        ("clear", |rig| rig.pool.clear()),
        ("clear_all", |rig| rig.pool.clear_all()),
        ("close", |rig| rig.pool.close()),
        ("retain", |rig| rig.pool.retain(|_, _| false)),
        ("set_max_idle", |rig| rig.pool.set_max_idle(0).expect("valid")),
        ("invalidate", |rig| {
            Borrowed::invalidate(rig.lend());
            Borrowed::invalidate(rig.lend());
        }),
    ];
    for (way, leave) in ways {
        let (rig, hand) = idle(2, |b| b);
        leave(&rig);
        assert_eq!((rig.pool.num_total(), rig.steps.alive()), (2, 2), "{way}");
        rig.steps.go_on("destroy");
        assert_eq!(run(&hand), 0, "{way}");
        assert_eq!((rig.pool.num_total(), rig.steps.alive()), (0, 0), "{way}");
        assert!(locked(&rig.events).is_empty(), "{way}");
    }
}

/// A borrower whose resource fails its test keeps the place: it waits for the destruction, until the limit.
#[test]
fn a_borrower_has_the_place_of_its_resource_that_fails() {
    for in_time in [true, false] {
        let (rig, hand) = idle(1, |b| b.test_on_borrow(true).max_total(1));
        rig.steps.on("validate", Step::Fails);
        let mut waits = rig.waits();
        assert_eq!((rig.steps.begun(), rig.counts()), (1, (1, 0, 1)));
        match in_time {
            true => rig.steps.go_on("destroy"),
            false => assert_eq!(hand.0.pass(6 * SECOND), 0),
        }
        assert_eq!((number(&mut waits), rig.steps.begun()), (Some(2), 2));
        let said: &[_] = if in_time { &["Invalid"] } else { &["Invalid", "DestroyTimedOut"] };
        assert_eq!(*locked(&rig.events), said);
    }
}

/// A victim is destroyed before the creation in its place begins.
#[test]
fn a_victim_is_destroyed_before_the_creation() {
    let (pool, steps, hand) = keyed(|b| b.max_total(1));
    assert!(block_on(pool.borrow_async(&"a")).is_ok());
    steps.on("destroy", Step::Held);
    let mut second = begin_borrow(&pool, "b");
    assert_eq!((steps.begun(), pool.num_total()), (1, 1));
    steps.go_on("destroy");
    run(&hand);
    assert_eq!((second.poll(), steps.begun()), (Some(Ok(())), 2));
}

/// However long a victim's destruction takes, the lifetime begins with the creation in its place.
#[test]
fn a_victims_destruction_takes_no_time_of_the_life_that_was_ordered() {
    let clock = ManualClock::new();
    let lives = 10 * SECOND;
    let (pool, steps, hand) = keyed(|b| b.max_total(1).max_lifetime(lives).clock(clock.clock()));
    assert!(block_on(pool.borrow_async(&"a")).is_ok());
    steps.on("destroy", Step::Held);
    let mut second = begin_borrow(&pool, "b");
    clock.advance(9 * SECOND);
    steps.go_on("destroy");
    run(&hand);
    assert_eq!((second.poll(), steps.begun()), (Some(Ok(())), 2));
    clock.advance(9 * SECOND);
    block_on(pool.maintain_async());
    assert_eq!(pool.num_idle_of(&"b"), 1);
    clock.advance(SECOND);
    block_on(pool.maintain_async());
    run(&hand);
    assert_eq!(pool.num_total(), 0);
}

/// One that hangs delays no other. At its limit it is dropped, and its place is free.
#[test]
fn a_destruction_that_hangs_ends_in_time() {
    let (rig, hand) = idle(3, |b| b.max_total(3).destroy_timeout(3 * SECOND));
    rig.pool.clear();
    run(&hand);
    assert_eq!(rig.steps.calls(), "destroy 1 destroy 2 destroy 3");
    hand.0.pass(2 * SECOND);
    assert_eq!((rig.pool.num_total(), rig.steps.alive()), (3, 3));
    let mut waits = rig.waits();
    hand.0.pass(2 * SECOND);
    assert_eq!((rig.pool.num_total(), rig.steps.alive()), (1, 1));
    assert_eq!(number(&mut waits), Some(4));
    assert_eq!(*locked(&rig.events), ["DestroyTimedOut"; 3]);
}

/// There is a limit by default.
#[test]
fn a_destruction_takes_five_seconds_at_most() {
    let (rig, hand) = idle(1, |b| b);
    rig.pool.clear();
    hand.0.pass(4 * SECOND);
    assert_eq!(rig.pool.num_total(), 1);
    hand.0.pass(2 * SECOND);
    assert_eq!(rig.pool.num_total(), 0);
}

/// The least and the largest time.
#[test]
fn the_time_of_a_destruction_ends_or_does_not() {
    for (time, left) in [(Duration::from_nanos(1), 0), (Duration::MAX, 1)] {
        let (rig, hand) = idle(1, |b| b.destroy_timeout(time));
        rig.pool.clear();
        hand.0.pass(HOUR);
        assert_eq!((rig.pool.num_total(), rig.steps.alive()), (left, left), "{time:?}");
    }
}

/// A panic ends one destruction, and the next begins.
#[test]
fn a_destruction_that_panics_is_reported() {
    let (rig, hand) = idle(2, |b| b);
    rig.steps.on("destroy", Step::Panics);
    rig.pool.clear();
    assert_eq!((run(&hand), rig.pool.num_total(), rig.steps.alive()), (0, 0, 0));
    assert_eq!(*locked(&rig.events), ["DestroyPanicked(\"on purpose\")"; 2]);
}

/// The end of a close comes after the last destruction.
#[test]
fn the_end_of_a_close_waits_for_destructions() {
    let (rig, hand) = idle(2, |b| b);
    let pool = rig.pool.clone();
    let mut end = Task::new(async move { pool.wait_closed_async().await });
    rig.pool.close();
    assert!(end.poll().is_none());
    rig.steps.go_on("destroy");
    run(&hand);
    assert_eq!(end.poll(), Some(()));
}

/// A runtime that ends drops what is in progress. The blocking call destroys the resources that it had not begun with.
#[test]
fn what_a_runtime_leaves_is_destroyed_at_its_end() {
    let (rig, hand) = idle(2, |b| b);
    rig.pool.clear();
    hand.shut_down();
    assert_eq!((rig.pool.num_total(), rig.steps.alive()), (0, 0));
    let hand = Hand::lazy();
    let rig = rig_on(|b| b, hand.clone());
    let mut all: Vec<_> = (0..3).map(|_| rig.waits()).collect();
    hand.run();
    let lent: Vec<_> = all.iter_mut().map(|one| one.poll().expect("made").expect("made")).collect();
    rig.steps.on("destroy", Step::Held);
    rig.steps.calls();
    lent.into_iter().for_each(Borrowed::invalidate);
    assert_eq!((rig.steps.calls(), rig.steps.alive()), (String::new(), 3), "no task has run");
    hand.shut_down();
    assert_eq!(
        (rig.steps.calls(), rig.steps.alive()),
        ("destroy 1 destroy 2 destroy 3".to_owned(), 0)
    );
    assert_eq!(rig.counts(), (0, 0, 0));
}

/// Once the runtime has ended, there is no limit, so nothing is awaited: the borrower calls the blocking one.
#[test]
fn nothing_is_awaited_after_the_end_of_the_runtime() {
    let (rig, hand) = idle(1, |b| b.test_on_borrow(true));
    hand.shut_down();
    drop((rig.lend(), rig.lend()));
    assert_eq!(*locked(&rig.events), ["RuntimeEnded"]);
    rig.steps.on("validate", Step::Fails);
    assert_eq!((rig.lend().number, rig.steps.alive()), (3, 1));
    rig.pool.clear();
    assert_eq!((rig.pool.num_total(), rig.steps.alive()), (0, 0));
}

type Log = Arc<Mutex<Vec<&'static str>>>;

/// A factory whose destructions block.
struct Blocks(Log);
impl AsyncResourceFactory for Blocks {
    type Resource = ();
    type Metadata = ();
    type Error = Infallible;
    async fn create(&self, (): &()) -> Result<(), Infallible> {
        Ok(())
    }
    fn destroy(&self, (): &(), (): ()) {
        std::thread::sleep(Duration::from_millis(20));
        locked(&self.0).push("destroyed");
    }
}

/// Destructions that block a runtime of one thread let its other tasks run in between, timers included.
#[test]
fn other_tasks_run_between_two_destructions() {
    end_the_run_when_the_library_panics();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        for close in [false, true] {
            let log = Log::default();
            let pool = ResourcePool::builder(Async(Blocks(log.clone())), ()).max_total(5);
            let pool = pool.max_idle_time(Duration::from_millis(20)).build_on(Tokio::current());
            let pool = pool.expect("a valid pool");
            pool.prefill_async(5).await.expect("there is room");
            if close {
                pool.close();
            }
            while pool.num_total() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
                locked(&log).push("ran");
            }
            let log = locked(&log).clone();
            assert_eq!(log.iter().filter(|what| **what == "destroyed").count(), 5);
            assert!(!log.windows(2).any(|two| two == ["destroyed"; 2]), "{close}: {log:?}");
        }
    });
}
