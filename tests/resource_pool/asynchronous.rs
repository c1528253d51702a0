//! Asynchronous pools without a runtime: cancellation at each await, unfinished creations, and the
//! passivation that a dropped guard cannot await.

use crate::common::{locked, pool};
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Step, Steps, begin_borrow, rig};
use cabrank::resource_pool::{AddError, Async, BorrowError, Borrowed, Failure, KeyedResourcePool};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

/// A dropped guard cannot passivate. The next borrower does, before its own activation.
#[test]
fn a_dropped_one_is_passivated_by_its_next_borrower() {
    let rig = rig(|b| b.test_on_return(true).test_on_borrow(true));
    drop(rig.lend());
    assert_eq!((rig.steps.calls().as_str(), rig.counts()), ("create 1 activate 1", (0, 1, 1)));
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "validate 1 passivate 1 activate 1 validate 1");
    // If passivation fails, the borrower gets another resource.
    rig.steps.on("passivate", Step::Fails);
    assert_eq!(rig.lend().number, 2);
    assert_eq!(rig.steps.calls(), "validate 1 passivate 1 destroy 1 create 2 activate 2");
    assert_eq!(*locked(&rig.events), [r#"PassivateFailed(Error("on purpose"))"#]);
}

/// A waiter that is granted the resource does the same.
#[test]
fn a_dropped_one_is_granted_unclean() {
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let mut task = rig.waits();
    rig.steps.calls();
    drop(lent);
    assert_eq!((rig.steps.calls().as_str(), task.wakes()), ("", 1));
    assert_eq!(task.poll().expect("woken").expect("granted").number, 1);
    assert_eq!(rig.steps.calls(), "passivate 1 activate 1");
}

#[test]
fn put_back_passivates_at_once() {
    let rig = rig(|b| b.test_on_return(true));
    let lent = rig.lend();
    rig.steps.calls();
    Task::new(Borrowed::put_back(lent)).finish();
    assert_eq!((rig.steps.calls().as_str(), rig.counts()), ("validate 1 passivate 1", (0, 1, 1)));
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "activate 1");
    // A resource that fails its test is destroyed.
    let lent = rig.lend();
    rig.steps.on("validate", Step::Fails);
    Task::new(Borrowed::put_back(lent)).finish();
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
}

#[test]
fn put_back_that_is_cancelled_destroys() {
    for call in ["validate", "passivate"] {
        let rig = rig(|b| b.max_active(1).test_on_return(true));
        let lent = rig.lend();
        let mut next = rig.waits();
        rig.steps.on(call, Step::Held);
        let mut task = Task::new(Borrowed::put_back(lent));
        assert!(task.poll().is_none());
        assert_eq!(rig.counts(), (1, 0, 1));
        drop(task);
        assert_eq!(rig.steps.alive(), 0);
        assert_eq!(next.poll().expect("its place").expect("a new one").number, 2);
    }
}

#[test]
fn a_cancelled_waiter_leaves_the_queue() {
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let (first, mut second) = (rig.waits(), rig.waits());
    drop(first);
    assert_eq!(rig.pool.num_waiting(), 1);
    drop(lent);
    drop(second.poll().expect("woken").expect("one"));
    assert_eq!((rig.counts(), rig.pool.num_waiting()), ((0, 1, 1), 0));
}

/// A dropped waiter's grant goes to the next waiter.
#[test]
fn a_cancelled_waiter_passes_its_grant_on() {
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let (first, mut second) = (rig.waits(), rig.waits());
    drop(lent);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    drop(second.poll().expect("woken").expect("one"));
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 1, 1), 1));
}

/// A resource whose activation or test is cancelled is destroyed, and its place becomes free.
#[test]
fn a_half_activated_resource_is_destroyed() {
    for (call, idle) in [
        ("activate", false),
        ("activate", true),
        ("validate", false),
        ("validate", true),
        ("passivate", true),
    ] {
        let rig = rig(|b| b.max_active(1).test_on_create(true).test_on_borrow(true));
        if idle {
            drop(rig.lend());
        }
        rig.steps.on(call, Step::Held);
        let task = rig.waits();
        let mut waits = rig.waits();
        assert_eq!((rig.counts(), rig.pool.num_waiting()), ((1, 0, 1), 1), "{call}");
        rig.steps.go_on(call);
        drop(task);
        assert_eq!(rig.steps.alive(), 0, "{call}");
        drop(waits.poll().expect("woken").expect("a new one"));
        assert_eq!((rig.counts(), rig.steps.begun()), ((0, 1, 1), 2), "{call}");
    }
}

/// Borrowers that are cancelled again and again stay within the limit of concurrent creations.
#[test]
fn a_storm_of_cancelled_creations_stays_within_the_limits() {
    let rig = rig(|b| b.max_active(3));
    rig.steps.on("create", Step::Held);
    for round in 0..50 {
        let tasks: Vec<_> = (0..5).map(|_| rig.waits()).collect();
        assert_eq!((rig.counts().0, rig.counts().2), (3, 3));
        // Cancel in another order each time.
        let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
        for at in 0..5 {
            tasks[(at * 2 + round) % 5] = None;
        }
        assert_eq!((rig.counts(), rig.pool.num_waiting()), ((0, 0, 0), 0));
        assert_eq!((rig.steps.begun(), rig.steps.held()), (3 * (round + 1), 0), "{round}");
    }
    rig.steps.go_on("create");
    let three = [rig.lend(), rig.lend(), rig.lend()];
    assert_eq!((rig.counts(), rig.steps.alive()), ((3, 0, 3), 3));
    drop(three);
}

#[test]
fn failures_and_panics_of_futures_are_errors() {
    let rig = rig(|b| b.max_active(1));
    rig.steps.on("create", Step::Fails);
    let failed = Failure::Error("on purpose".to_owned());
    assert_eq!(rig.begin().1.expect("no wait").unwrap_err(), BorrowError::Create(failed));
    rig.steps.on("create", Step::Panics);
    let panicked = || Failure::Panicked("on purpose".to_owned());
    assert_eq!(rig.begin().1.expect("no wait").unwrap_err(), BorrowError::Create(panicked()));
    rig.steps.go_on("create");
    rig.steps.on("activate", Step::Panics);
    assert_eq!(rig.begin().1.expect("no wait").unwrap_err(), BorrowError::Activate(panicked()));
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
}

/// A cancelled addition drops its creation, or destroys the resource that was being tested or
/// passivated. The next maintenance creates another.
#[test]
fn a_cancelled_refill_adds_no_idle_resource() {
    for call in ["create", "validate", "passivate"] {
        let rig = rig(|b| b.min_idle(1).test_on_create(true));
        rig.steps.on(call, Step::Held);
        let (adds, maintains) = (rig.pool.clone(), rig.pool.clone());
        let mut tasks = [
            Task::new(async move { adds.add_async().await.ok().and(None) }),
            Task::new(async move { maintains.maintain_async().await }),
        ];
        assert!(tasks[0].poll().is_none());
        assert_eq!(rig.counts(), (0, 0, 1));
        assert!(tasks[1].poll().is_some(), "{call}: the creation is pending");
        rig.steps.go_on(call);
        drop(tasks);
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0), "{call}");
        rig.pass().finish();
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, 1, 1), 1));
        assert_eq!(rig.steps.begun(), 2, "{call}");
    }
}

/// Cancelling the test of an idle resource destroys it.
#[test]
fn a_test_while_idle_that_is_cancelled_destroys() {
    let rig = rig(|b| b.test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    rig.clock.advance(SECOND);
    rig.steps.on("validate", Step::Held);
    let mut task = rig.pass();
    assert!(task.poll().is_none());
    assert_eq!(rig.counts(), (0, 1, 1));
    drop(task);
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
}

/// The pool wakes the waker of the latest poll.
#[test]
fn the_waker_may_change_between_polls() {
    #[derive(Default)]
    struct Counts(AtomicUsize);
    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let mut task = Task::new(async move { pool.borrow_async().await.map(drop) });
    let counts: [Arc<Counts>; 3] = Default::default();
    for count in &counts {
        assert!(task.poll_with(&Waker::from(count.clone())).is_none());
    }
    drop(lent);
    assert_eq!(counts.each_ref().map(|count| count.0.load(SeqCst)), [0, 0, 1]);
    // Replaced wakers are dropped; the last one is dropped by its wake-up.
    assert_eq!(counts.each_ref().map(Arc::strong_count), [1, 1, 1]);
    assert!(task.poll_with(Waker::noop()).is_some());
}

/// Tasks and threads share one queue in a pool with a synchronous factory.
#[test]
fn tasks_borrow_from_a_synchronous_factory() {
    let rig = pool(|b| b.max_active(1).max_wait(SECOND));
    let pool = rig.pool.clone();
    let lent = Task::new(async move { pool.borrow_async().await.map(Borrowed::into_owned) });
    let lent = lent.finish().expect("at once");
    let first = rig.queue();
    let mut second = rig.task();
    let third = rig.queue();
    drop(lent);
    drop(first.end().expect("its turn"));
    drop(second.poll().expect("its turn").expect("one"));
    drop(third.end().expect("its turn"));
    let pool = rig.pool.clone();
    let impatient = Task::new(async move { pool.try_borrow_async().await.map(drop) });
    assert_eq!(impatient.finish(), Ok(()));
    // `put_back` passivates, and so does a drop.
    rig.script.calls();
    Task::new(Borrowed::put_back(rig.lend())).finish();
    assert_eq!(rig.script.calls(), "activate 1 passivate 1");
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 1));
}

#[test]
fn keys_and_tasks() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
    let pool = pool.maintenance(false).build_async().expect("valid");
    steps.on("create", Step::Held);
    let begin = |key| begin_borrow(&pool, key);
    drop(begin("a"));
    assert_eq!((pool.num_total(), pool.num_keys()), (0, 0));
    let mut other = begin("b");
    assert_eq!((pool.num_active_of(&"b"), steps.begun()), (1, 2));
    steps.go_on("create");
    other.poll().expect("woken").expect("created");
    let theirs = pool.clone();
    Task::new(async move { theirs.add_async(&"b").await }).finish().expect_err("it is full");
    assert_eq!((pool.num_total(), steps.alive()), (1, 1));
}

/// Creations run one after the other until one fails. Resources created by then stay.
#[test]
fn prefill_stops_at_the_first_failure() {
    let rig = rig(|b| b.max_idle(3));
    let prefill = |number| {
        let pool = rig.pool.clone();
        Task::new(async move { pool.prefill_async(number).await })
    };
    assert_eq!((prefill(2).finish(), rig.counts()), (Ok(()), (0, 2, 2)));
    assert_eq!((prefill(0).finish(), rig.counts()), (Ok(()), (0, 2, 2)));
    assert_eq!(prefill(4).finish(), Err(AddError::Full));
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 3, 3), 3));
    rig.pool.clear();
    rig.steps.on("create", Step::Held);
    let mut cut = prefill(2);
    assert!(cut.poll().is_none());
    assert_eq!(rig.counts(), (0, 0, 1), "no two at a time");
    drop(cut);
    rig.steps.go_on("create");
    assert_eq!((prefill(1).finish(), rig.counts(), rig.steps.begun()), (Ok(()), (0, 1, 1), 5));

    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(3);
    let pool = pool.maintenance(false).build_async().expect("valid");
    let prefill = |key: &'static str| {
        let pool = pool.clone();
        Task::new(async move { pool.prefill_async(&key, 2).await }).finish()
    };
    assert_eq!((prefill("a"), prefill("b")), (Ok(()), Err(AddError::Full)));
    assert_eq!((pool.num_idle_of(&"a"), pool.num_idle_of(&"b")), (2, 1));
}
