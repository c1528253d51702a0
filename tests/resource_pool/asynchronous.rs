//! Pools for tasks, without a runtime: what is cancelled at each await, what is kept of it, and who does
//! what a dropped guard could not await.

use crate::common::{locked, pool};
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Rig, Step, Steps, rig};
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, Failure, KeyedResourcePool, ResourceState,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Wake, Waker};

/// What is dropped cannot be passivated there: its next borrower does it, before its own activation.
#[test]
fn a_dropped_one_is_passivated_by_its_next_borrower() {
    let rig = rig(|b| b.test_on_return(true).test_on_borrow(true));
    drop(rig.lend());
    assert_eq!((rig.steps.calls().as_str(), rig.counts()), ("create 1 activate 1", (0, 1, 1)));
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "validate 1 passivate 1 activate 1 validate 1");
    // If that fails it gets another.
    rig.steps.on("passivate", Step::Fails);
    assert_eq!(rig.lend().number, 2);
    assert_eq!(rig.steps.calls(), "validate 1 passivate 1 destroy 1 create 2 activate 2");
    assert_eq!(*locked(&rig.events), [r#"PassivateFailed(Error("on purpose"))"#]);
}

/// And so does a waiter to whom it is handed.
#[test]
fn a_dropped_one_is_handed_over_unclean() {
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let mut task = rig.waits();
    rig.steps.calls();
    drop(lent);
    assert_eq!((rig.steps.calls().as_str(), task.wakes()), ("", 1));
    assert_eq!(task.poll().expect("woken").expect("handed over").number, 1);
    assert_eq!(rig.steps.calls(), "passivate 1 activate 1");
}

#[test]
fn put_back_passivates_at_once() {
    let rig = rig(|b| b.test_on_return(true));
    let lent = rig.lend();
    rig.steps.calls();
    Task::new(lent.put_back()).finish();
    assert_eq!((rig.steps.calls().as_str(), rig.counts()), ("validate 1 passivate 1", (0, 1, 1)));
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "activate 1");
    // What fails its test is destroyed.
    let lent = rig.lend();
    rig.steps.on("validate", Step::Fails);
    Task::new(lent.put_back()).finish();
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
}

#[test]
fn put_back_that_is_cancelled_destroys() {
    for call in ["validate", "passivate"] {
        let rig = rig(|b| b.max_active(1).test_on_return(true));
        let lent = rig.lend();
        let mut next = rig.waits();
        rig.steps.on(call, Step::Held);
        let mut task = Task::new(lent.put_back());
        assert!(task.poll().is_none());
        assert_eq!(rig.counts(), (1, 0, 1));
        drop(task);
        assert_eq!(rig.steps.alive(), 0);
        assert_eq!(next.poll().expect("its place").expect("a new one").number, 2);
    }
}

#[test]
fn who_stops_waiting_leaves_the_queue() {
    let rig = rig(|b| b.max_active(1));
    let lent = rig.lend();
    let (first, mut second) = (rig.waits(), rig.waits());
    drop(first);
    assert_eq!(rig.pool.num_waiting(), 1);
    drop(lent);
    drop(second.poll().expect("woken").expect("one"));
    assert_eq!((rig.counts(), rig.pool.num_waiting()), ((0, 1, 1), 0));
}

/// What it had been given is the next waiter's.
#[test]
fn who_stops_after_being_served_passes_it_on() {
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

/// What was begun is kept, and finished by the next borrower: one creation in all.
#[test]
fn a_creation_outlives_its_borrower() {
    let rig = rig(|b| b.test_on_create(true));
    rig.steps.on("create", Step::Held);
    let creating = rig.waits();
    assert_eq!(rig.counts(), (1, 0, 1));
    drop(creating);
    assert_eq!(rig.counts(), (0, 1, 1));
    let resources = &rig.pool.snapshot().keys[0].resources;
    assert_eq!(resources[0].state, ResourceState::Unfinished);
    let mut adopts = rig.waits();
    rig.steps.go_on("create");
    assert_eq!(adopts.wakes(), 1);
    assert_eq!(adopts.poll().expect("woken").expect("it was finished").number, 1);
    assert_eq!(rig.steps.calls(), "create 1 validate 1 activate 1");
}

/// And at once by a waiter, if there is one.
#[test]
fn a_waiter_takes_over_a_creation() {
    let rig = rig(|b| b.max_active(1));
    rig.steps.on("create", Step::Held);
    let creating = rig.waits();
    let mut waiting = rig.waits();
    drop(creating);
    assert_eq!((waiting.wakes(), rig.counts()), (1, (1, 0, 1)));
    assert!(waiting.poll().is_none());
    rig.steps.go_on("create");
    drop(waiting.poll().expect("woken").expect("it was finished"));
    assert_eq!(rig.steps.begun(), 1);
}

/// What another has begun fails: that is not this borrower's failure. It makes one itself, once.
#[test]
fn a_creation_that_is_taken_over_may_fail() {
    for (step, told) in [
        (Step::Fails, r#"CreateFailed(Error("on purpose"))"#),
        (Step::Panics, r#"CreateFailed(Panicked("on purpose"))"#),
    ] {
        let rig = rig(|b| b.max_active(1));
        rig.steps.on("create", Step::Held);
        drop(rig.waits());
        rig.steps.on("create", step);
        let failed = rig.begin().1.expect("no wait").expect_err("its own failed, too");
        assert!(matches!(failed, BorrowError::Create(_)));
        assert_eq!((rig.steps.begun(), rig.counts()), (2, (0, 0, 0)));
        assert_eq!(*locked(&rig.events), [told]);
    }
}

/// Unfinished stock leaves like any other.
#[test]
fn an_unfinished_one_leaves_with_a_clear_a_close_and_its_time() {
    for end in [
        |rig: &Rig| rig.pool.clear(),
        |rig: &Rig| rig.pool.clear_all(),
        |rig: &Rig| rig.pool.close(),
        |rig: &Rig| rig.pool.set_max_idle(0).expect("valid"),
        |rig: &Rig| {
            rig.clock.advance(5 * SECOND);
            let pool = rig.pool.clone();
            assert_eq!(Task::new(async move { pool.maintain_async().await }).finish(), None);
        },
    ] {
        let rig = rig(|b| b.max_idle_time(5 * SECOND));
        rig.steps.on("create", Step::Held);
        drop(rig.waits());
        assert_eq!(rig.counts(), (0, 1, 1));
        end(&rig);
        assert_eq!(rig.counts(), (0, 0, 0));
        rig.steps.go_on("create");
        assert_eq!((rig.steps.begun(), rig.steps.alive()), (1, 0));
    }
}

/// What was being activated or tested is half prepared at best: destroyed, and its place is free.
#[test]
fn what_is_cancelled_half_prepared_is_destroyed() {
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

/// Borrowers that give up again and again make no more at once than there may be.
#[test]
fn a_storm_of_cancelled_creations_makes_no_more_than_may_be() {
    let rig = rig(|b| b.max_active(3));
    rig.steps.on("create", Step::Held);
    for round in 0..50 {
        let tasks: Vec<_> = (0..5).map(|_| rig.waits()).collect();
        assert_eq!((rig.counts().0, rig.counts().2), (3, 3));
        // In another order each time.
        let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
        for at in 0..5 {
            tasks[(at * 2 + round) % 5] = None;
        }
        let (_, idle, total) = rig.counts();
        assert_eq!((rig.counts(), rig.pool.num_waiting()), ((0, idle, idle), 0));
        assert!(total <= 3, "{total}");
        // What one round has begun and left the next takes over: it is not thrown away.
        assert_eq!(rig.steps.begun(), 3 * (round / 2 + 1), "{round}");
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

/// What was begun is kept, unfinished, and polled on when the pool is maintained next; what was being tested or
/// passivated is destroyed, and another made then.
#[test]
fn stock_that_is_cancelled_is_none() {
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
        assert!(tasks[1].poll().is_some(), "{call}: it is being made");
        rig.steps.go_on(call);
        drop(tasks);
        let kept = usize::from(call == "create");
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, kept, kept), 0), "{call}");
        let pool = rig.pool.clone();
        Task::new(async move { pool.maintain_async().await }).finish();
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, 1, 1), 1));
        assert_eq!(rig.steps.begun(), 2 - kept, "{call}");
    }
}

/// A test of an idle one that is cancelled destroys it.
#[test]
fn a_test_while_idle_that_is_cancelled_destroys() {
    let rig = rig(|b| b.test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    rig.clock.advance(SECOND);
    rig.steps.on("validate", Step::Held);
    let pool = rig.pool.clone();
    let mut task = Task::new(async move { pool.maintain_async().await });
    assert!(task.poll().is_none());
    assert_eq!(rig.counts(), (0, 1, 1));
    drop(task);
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
}

/// Who is woken is who polled last.
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
    // Those that were replaced are dropped, and the last one is with its wake-up.
    assert_eq!(counts.each_ref().map(Arc::strong_count), [1, 1, 1]);
    assert!(task.poll_with(Waker::noop()).is_some());
}

/// Tasks and threads stand in one queue, before a pool whose factory is not asynchronous.
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
    // What is put back is passivated, and so is what is dropped.
    rig.script.calls();
    Task::new(rig.lend().put_back()).finish();
    assert_eq!(rig.script.calls(), "activate 1 passivate 1");
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 1));
}

#[test]
fn keys_and_tasks() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
    let pool = pool.build_async().expect("valid");
    steps.on("create", Step::Held);
    let begin = |key: &'static str| {
        let pool = pool.clone();
        let mut task = Task::new(async move { pool.borrow_async(&key).await.map(drop) });
        assert!(task.poll().is_none());
        task
    };
    drop(begin("a"));
    assert_eq!((pool.num_idle_of(&"a"), pool.num_keys()), (1, 1));
    // An unfinished one makes room like any other.
    let mut other = begin("b");
    assert_eq!((pool.num_idle_of(&"a"), pool.num_active_of(&"b"), steps.begun()), (0, 1, 2));
    steps.go_on("create");
    other.poll().expect("woken").expect("made");
    let theirs = pool.clone();
    Task::new(async move { theirs.add_async(&"b").await }).finish().expect_err("it is full");
    assert_eq!((pool.num_total(), steps.alive()), (1, 1));
}

/// One after the other, until one cannot be made; what was made by then stays, and so does what was begun when it
/// is dropped.
#[test]
fn several_are_made_for_stock() {
    let rig = rig(|b| b.max_idle(3));
    let prefill = |number| {
        let pool = rig.pool.clone();
        Task::new(async move { pool.prefill_async(number).await })
    };
    assert_eq!((prefill(2).finish(), rig.counts()), (Ok(()), (0, 2, 2)));
    assert_eq!((prefill(0).finish(), rig.counts()), (Ok(()), (0, 2, 2)));
    assert_eq!(prefill(2).finish(), Err(AddError::Full));
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 3, 3), 3));
    rig.pool.clear();
    rig.steps.on("create", Step::Held);
    let mut cut = prefill(2);
    assert!(cut.poll().is_none());
    assert_eq!(rig.counts(), (0, 0, 1), "no two at a time");
    drop(cut);
    rig.steps.go_on("create");
    assert_eq!((prefill(1).finish(), rig.counts(), rig.steps.begun()), (Ok(()), (0, 1, 1), 4));

    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(3);
    let pool = pool.build_async().expect("valid");
    let prefill = |key: &'static str| {
        let pool = pool.clone();
        Task::new(async move { pool.prefill_async(&key, 2).await }).finish()
    };
    assert_eq!((prefill("a"), prefill("b")), (Ok(()), Err(AddError::Full)));
    assert_eq!((pool.num_idle_of(&"a"), pool.num_idle_of(&"b")), (2, 1));
}
