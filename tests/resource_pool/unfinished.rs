//! Unfinished creations in the idle list. They are lent last, evicted first, and end after two
//! borrowers have left them.

use crate::common::locked;
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Building, Rig, Step, Steps, rig};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, Failure, KeyedResourcePool, LendOrder, ResourceState,
};
use std::time::Duration;

/// Returns a pool with one unfinished creation, number 1. Later creations finish at once.
fn left(configure: impl FnOnce(Building) -> Building) -> Rig {
    let rig = rig(configure);
    rig.steps.on("create", Step::Held);
    drop(rig.waits());
    assert_eq!(rig.counts(), (0, 1, 1));
    rig
}

fn states(rig: &Rig) -> Vec<ResourceState> {
    rig.pool.snapshot().keys[0].resources.iter().map(|resource| resource.state).collect()
}

/// Finished resources are lent before it (PROP-RP-FINISHED-FIRST). An earlier version lent the
/// hanging creation first, again and again.
#[test]
fn finished_resources_are_lent_first() {
    for order in [LendOrder::NewestFirst, LendOrder::OldestFirst] {
        let rig = rig(|b| b.lend_order(order));
        let lent = rig.lend();
        rig.steps.on("create", Step::Held);
        let (hangs, another) = (rig.waits(), rig.waits());
        drop(hangs);
        drop(lent);
        drop(another);
        let unfinished = ResourceState::Unfinished;
        assert_eq!(states(&rig), [unfinished, unfinished, ResourceState::Idle]);
        for _ in 0..10 {
            assert_eq!(rig.lend().number, 1);
        }
        // Only a borrower that finds no finished one takes it over, the oldest first.
        let _lent = rig.lend();
        let first = rig.waits();
        let ids: Vec<_> = rig.pool.snapshot().keys[0].resources.iter().map(|r| r.id).collect();
        assert_eq!((ids, rig.steps.begun()), (vec![3, 1, 2], 3));
        drop(first);
    }
}

/// A second borrower that leaves it ends it: its place becomes free, and the next borrower starts a
/// new creation (PROP-RP-OFFERED-ONCE).
#[test]
fn it_is_taken_over_once() {
    let rig = left(|b| b.max_active(1).max_total(1));
    let second = rig.waits();
    let mut third = rig.waits();
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (1, 0, 1)));
    drop(second);
    assert_eq!((third.wakes(), rig.counts()), (1, (1, 0, 1)));
    rig.steps.go_on("create");
    assert_eq!(third.poll().expect("its place").expect("a new one").number, 2);
    assert_eq!((rig.counts(), rig.steps.alive()), ((0, 1, 1), 1));
}

/// During an outage each creation hangs, and each borrower is cancelled. At most every second one
/// meets a creation that another left. The first borrower after the outage that creates is served.
#[test]
fn a_creation_that_hangs_is_given_up() {
    let rig = rig(|b| b.max_active(1).max_idle_time(60 * SECOND));
    rig.steps.on("create", Step::Held);
    for round in 0..10 {
        rig.clock.advance(30 * SECOND);
        drop(rig.waits());
        let left = usize::from(round % 2 == 0);
        assert_eq!((rig.counts(), rig.steps.begun()), ((0, left, left), round / 2 + 1));
    }
    rig.steps.go_on("create");
    assert_eq!(rig.lend().number, 6);
}

/// A waiter that never picked it up has not waited for it: it is passed on, and kept.
#[test]
fn a_grant_that_is_not_picked_up_is_no_take_over() {
    let rig = rig(|b| b.max_active(1));
    rig.steps.on("create", Step::Held);
    let first = rig.waits();
    let (second, mut third) = (rig.waits(), rig.waits());
    drop(first);
    assert_eq!((second.wakes(), third.wakes()), (1, 0));
    drop(second);
    assert_eq!(third.wakes(), 1);
    assert!(third.poll().is_none());
    rig.steps.go_on("create");
    assert_eq!(third.poll().expect("finished").expect("well").number, 1);
    assert_eq!(rig.steps.begun(), 1);
}

/// Its lifetime counts from the beginning of its creation, its idle time from when it was left.
#[test]
fn it_ages() {
    type Of = fn(Building) -> Building;
    let cases: [(Of, u32); 3] = [
        (|b| b.max_lifetime(10 * SECOND), 6),
        (|b| b.max_idle_time(10 * SECOND), 10),
        (|b| b.soft_max_idle_time(10 * SECOND).max_idle_time(90 * SECOND).min_idle(1), 10),
    ];
    for (configure, seconds) in cases {
        let rig = rig(configure);
        // With and without a minimum.
        let beside = rig.lend();
        rig.steps.on("create", Step::Held);
        let hangs = rig.waits();
        rig.clock.advance(4 * SECOND);
        drop((hangs, beside));
        rig.steps.go_on("create");
        assert_eq!(rig.steps.begun(), 2);
        let pass = || rig.pass().finish();
        assert_eq!(pass(), Some(seconds * SECOND));
        rig.clock.advance(seconds * SECOND);
        pass();
        assert!(!states(&rig).contains(&ResourceState::Unfinished));
    }
    // A borrower that meets it before the maintenance evicts it.
    let rig = left(|b| b.max_idle_time(5 * SECOND));
    rig.steps.go_on("create");
    rig.clock.advance(5 * SECOND);
    assert_eq!(rig.lend().number, 2);
}

/// It counts for `max_idle`, gives way to finished ones, and does not count as ready.
#[test]
fn it_is_worth_less_than_what_is_finished() {
    let rig = left(|b| b.max_idle(1));
    let hangs = rig.waits();
    rig.steps.go_on("create");
    let lent = rig.lend();
    drop(hangs);
    assert_eq!(rig.counts(), (1, 0, 1));
    rig.steps.on("create", Step::Held);
    drop(rig.waits());
    assert_eq!(states(&rig), [ResourceState::Unfinished, ResourceState::Lent]);
    drop(lent);
    assert_eq!(states(&rig), [ResourceState::Idle]);
    // Beside a finished one it is not kept.
    let lent = rig.lend();
    let hangs = rig.waits();
    drop(lent);
    drop(hangs);
    assert_eq!(states(&rig), [ResourceState::Idle]);

    let rig = left(|b| b.min_idle(1));
    rig.steps.go_on("create");
    rig.pass().finish();
    assert_eq!((states(&rig), rig.steps.begun()), (vec![ResourceState::Idle], 1));
}

/// It is evicted for other keys before any finished one, however old.
#[test]
fn it_makes_room_first() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(2);
    let pool = pool.build_async().expect("valid");
    let begin = |key: &'static str| {
        let pool = pool.clone();
        let mut task =
            Task::new(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) });
        let got = task.poll();
        (task, got)
    };
    drop(begin("used").1.expect("at once").expect("one"));
    steps.on("create", Step::Held);
    drop(begin("left").0);
    steps.go_on("create");
    let lent = begin("other").1.expect("at once").expect("one");
    assert_eq!((pool.num_idle_of(&"left"), pool.num_idle_of(&"used")), (0, 1));
    assert_eq!((lent.number, pool.num_total()), (3, 2));
}

/// It is tested like an idle resource. If it fails it is destroyed, and its borrower gets another.
#[test]
fn it_is_tested_like_an_idle_one() {
    let rig = left(|b| b.test_on_create(true).test_on_borrow(true));
    rig.steps.go_on("create");
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "create 1 validate 1 activate 1 validate 1");
    for (call, reported) in [
        ("validate", "ValidatePanicked(\"on purpose\")"),
        ("activate", "ActivateFailed(Panicked(\"on purpose\"))"),
    ] {
        let rig = left(|b| b.max_total(1).test_on_borrow(true));
        rig.steps.on(call, Step::Panics);
        rig.steps.go_on("create");
        let (task, got) = rig.begin();
        drop(task);
        // The one created in its stead fails too; it is activated but not tested.
        match call {
            "validate" => assert_eq!(got.expect("at once").expect("one").number, 2),
            _ => assert!(matches!(got, Some(Err(BorrowError::Activate(_))))),
        }
        assert_eq!(*locked(&rig.events), [reported]);
        assert!(rig.steps.calls().contains("destroy 1"));
    }
}

/// In a closed pool a failed creation is not repeated.
#[test]
fn a_closed_pool_does_not_repeat_a_failed_creation() {
    let rig = left(|b| b.max_active(1));
    let mut task = rig.waits();
    rig.pool.close();
    rig.steps.on("create", Step::Fails);
    assert_eq!(task.poll().expect("it failed").map(drop), Err(BorrowError::Closed));
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (0, 0, 0)));
}

/// The task of an `add` is dropped. The pool keeps its creation like a borrower's, and the next
/// borrower finishes it. The addition has ended.
#[test]
fn an_unfinished_addition_is_kept() {
    let rig = rig(|b| b.max_total(2).test_on_create(true));
    rig.steps.on("create", Step::Held);
    let adds = rig.adds();
    assert_eq!((rig.counts(), states(&rig)), ((0, 0, 1), vec![ResourceState::BeingCreated]));
    drop(adds);
    assert_eq!((rig.counts(), states(&rig)), ((0, 1, 1), vec![ResourceState::Unfinished]));
    let mut takes_over = rig.waits();
    rig.steps.go_on("create");
    let lent = takes_over.poll().expect("woken").expect("it was finished");
    assert_eq!((lent.number, rig.steps.calls().as_str()), (1, "create 1 validate 1 activate 1"));
    drop(lent);
    // The counts are exact.
    rig.add().finish().expect("room for one");
    let full = rig.add().finish();
    assert_eq!((full, rig.counts()), (Err(AddError::Full), (0, 2, 2)));
}

/// A waiter takes it over at once, whatever its key.
#[test]
fn an_unfinished_addition_goes_to_a_waiter() {
    for fair in [true, false] {
        let rig = rig(|b| b.max_total(1).fair(fair));
        rig.steps.on("create", Step::Held);
        let adds = rig.adds();
        let mut waiting = rig.waits();
        assert_eq!(waiting.wakes(), 0);
        drop(adds);
        assert_eq!((waiting.wakes(), rig.pool.num_waiting()), (1, 0));
        assert!(waiting.poll().is_none());
        assert_eq!(rig.counts(), (1, 0, 1));
        rig.steps.go_on("create");
        let lent = waiting.poll().expect("woken").expect("it was finished");
        assert_eq!((lent.number, rig.steps.begun()), (1, 1), "fair: {fair}");
    }
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
    let pool = pool.build_async().expect("valid");
    steps.on("create", Step::Held);
    let theirs = pool.clone();
    let mut adds = Task::new(async move { theirs.add_async(&"a").await });
    assert!(adds.poll().is_none());
    let theirs = pool.clone();
    let mut waiting = Task::new(async move { theirs.borrow_async(&"b").await.map(drop) });
    assert!(waiting.poll().is_none());
    steps.go_on("create");
    drop(adds);
    // It is evicted for another key.
    assert_eq!(waiting.poll(), Some(Ok(())));
    assert_eq!((pool.num_keys(), pool.num_total(), steps.begun()), (1, 1, 2));
}

/// It is dropped when it is no longer wanted, or finds no room.
#[test]
fn an_unwanted_unfinished_addition_is_dropped() {
    let ends: [fn(&Rig); 5] = [
        |rig| rig.pool.close(),
        |rig| rig.pool.clear_all(),
        |rig| rig.pool.set_max_idle(0).expect("valid"),
        |rig| rig.clock.advance(5 * SECOND),
        |rig| {
            // Another one finishes first and fills the idle list.
            rig.steps.go_on("create");
            drop(rig.lend());
        },
    ];
    for (nth, end) in ends.into_iter().enumerate() {
        let rig = rig(|b| b.max_idle(1).max_lifetime(5 * SECOND));
        rig.steps.on("create", Step::Held);
        let adds = rig.adds();
        end(&rig);
        drop(adds);
        let idle = usize::from(nth == 4);
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, idle, idle), idle), "{nth}");
        assert!(!states(&rig).contains(&ResourceState::Unfinished), "{nth}");
        rig.steps.go_on("create");
        assert_eq!(rig.steps.begun(), 1 + idle, "{nth}");
    }
}

/// The pool ends when the creation is left, though it never finished.
#[test]
fn a_closed_pool_ends_with_its_unfinished_addition() {
    let rig = rig(|b| b);
    rig.steps.on("create", Step::Held);
    let adds = rig.adds();
    rig.pool.close();
    let pool = rig.pool.clone();
    let mut over = Task::new(async move { pool.wait_closed_async().await });
    assert!(over.poll().is_none());
    drop(adds);
    assert!(over.poll().is_some());
}

/// A second borrower that leaves it ends it (PROP-RP-OFFERED-ONCE).
#[test]
fn an_unfinished_addition_is_taken_over_once() {
    let rig = rig(|b| b.max_total(1));
    rig.steps.on("create", Step::Held);
    drop(rig.adds());
    drop(rig.waits());
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 0, 0), 1));
    drop(rig.adds());
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 1, 1), 2));
}

/// The task of the maintenance is dropped: the next pass polls its creation on.
#[test]
fn an_unfinished_refill_is_kept() {
    let rig = rig(|b| b.min_idle(1));
    rig.steps.on("create", Step::Held);
    let pass = || rig.pass();
    let mut cut_short = pass();
    assert!(cut_short.poll().is_none());
    drop(cut_short);
    assert_eq!(states(&rig), [ResourceState::Unfinished]);
    rig.steps.go_on("create");
    pass().finish();
    assert_eq!(states(&rig), [ResourceState::Idle]);
    let two = [rig.lend(), rig.lend()];
    assert_eq!(two.each_ref().map(|lent| lent.number), [1, 2]);
}

/// Returns a pass of the maintenance that has to wait.
#[track_caller]
fn fills_up(rig: &Rig) -> Task<Option<Duration>> {
    let mut task = rig.pass();
    assert!(task.poll().is_none(), "the creation is pending");
    task
}

/// A creation left by a borrower, an `add` or the maintenance has the only place. The next pass
/// finishes it, instead of giving up the minimum until the next borrow (PROP-RP-REFILLED).
#[test]
fn an_unfinished_creation_refills_the_minimum() {
    let leave: [fn(&Rig); 3] =
        [|rig| drop(rig.waits()), |rig| drop(rig.adds()), |rig| drop(fills_up(rig))];
    for leaves in leave {
        let rig = rig(|b| b.min_idle(1).max_total(1));
        rig.steps.on("create", Step::Held);
        leaves(&rig);
        assert_eq!(states(&rig), [ResourceState::Unfinished]);
        let mut fills = fills_up(&rig);
        assert_eq!((states(&rig), rig.counts()), (vec![ResourceState::BeingCreated], (0, 0, 1)));
        rig.steps.go_on("create");
        assert_eq!(fills.poll(), Some(None), "no pass is due");
        assert_eq!((states(&rig), rig.counts()), (vec![ResourceState::Idle], (0, 1, 1)));
        assert_eq!((rig.lend().number, rig.steps.begun()), (1, 1));
    }
}

/// If the maintenance leaves it too, it frees its place; if it fails, the key backs off.
#[test]
fn the_maintenance_ends_a_creation_that_it_leaves_too() {
    let rig = left(|b| b.min_idle(1).max_total(1));
    drop(fills_up(&rig));
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 0, 0), 1));
    let rig = left(|b| b.min_idle(1).max_total(1));
    rig.steps.on("create", Step::Fails);
    let due = rig.pass().finish();
    assert_eq!((due, rig.counts()), (Some(SECOND / 2), (0, 0, 0)));
    assert_eq!(*locked(&rig.events), ["CreateFailed(Error(\"on purpose\"))"]);
}

/// It has the only place, and must not block the next `add`.
#[test]
fn an_addition_takes_over_an_unfinished_creation() {
    let rig = left(|b| b.max_total(1));
    let mut adds = rig.adds();
    assert_eq!((states(&rig), rig.steps.begun()), (vec![ResourceState::BeingCreated], 1));
    rig.steps.go_on("create");
    assert_eq!((adds.poll(), rig.counts(), rig.steps.begun()), (Some(Ok(())), (0, 1, 1), 1));
    let rig = left(|b| b.max_total(1));
    drop(rig.adds());
    assert_eq!(rig.counts(), (0, 0, 0), "two have waited for it");
    let mut adds = rig.adds();
    rig.steps.on("create", Step::Fails);
    let failed = AddError::Create(Failure::Error("on purpose".to_owned()));
    assert_eq!((adds.poll(), rig.counts(), rig.steps.begun()), (Some(Err(failed)), (0, 0, 0), 2));
}

/// The `add` returns the failure of a creation that it took over.
#[test]
fn an_addition_fails_with_the_creation_it_took_over() {
    let rig = left(|b| b.max_total(1));
    rig.steps.on("create", Step::Fails);
    let added = rig.add().finish();
    let failed = Err(AddError::Create(Failure::Error("on purpose".to_owned())));
    assert_eq!((added, rig.counts(), rig.steps.begun()), (failed, (0, 0, 0), 1));
}

/// The key backs off, and then has no room: another key's unfinished creation does not make it due.
#[test]
fn an_unfinished_creation_is_not_due_for_another_key() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone()));
    let pool = pool.min_idle(1).max_total(3).clock(ManualClock::new().clock());
    let pool = pool.build_async().expect("valid");
    let borrow = |key: &'static str| {
        let pool = pool.clone();
        Task::new(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) })
    };
    let due = || {
        let pool = pool.clone();
        Task::new(async move { pool.maintain_async().await }).finish()
    };
    let a = borrow("a").finish().expect("created");
    steps.on("create", Step::Fails);
    assert_eq!(due(), Some(SECOND / 2));
    steps.go_on("create");
    let b = borrow("b").finish().expect("created");
    steps.on("create", Step::Held);
    let mut leaves = borrow("b");
    assert!(leaves.poll().is_none());
    drop(b);
    assert_eq!((due(), pool.num_total()), (None, 3));
    drop(leaves);
    assert_eq!((due(), pool.num_total(), pool.num_idle_of(&"b")), (None, 3, 2));
    steps.go_on("create");
    drop(Borrowed::detach(borrow("b").finish().expect("idle")));
    assert_eq!((due(), pool.num_idle_of(&"b")), (Some(SECOND / 2), 1), "there is room for it");
    drop(a);
}

/// At the limit of one key and at that of all: of the keys below their minimum, the unfinished
/// creation belongs to the second.
#[test]
fn a_full_key_does_not_keep_another_from_its_unfinished_creation() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone()));
    let pool = pool.min_idle(1).max_total(3).max_total_per_key(2).build_async().expect("valid");
    let borrow = |key: &'static str| {
        let pool = pool.clone();
        Task::new(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) })
    };
    let a = borrow("a").finish().expect("created");
    let b = borrow("b").finish().expect("created");
    steps.on("create", Step::Held);
    let mut leaves = borrow("b");
    assert!(leaves.poll().is_none());
    drop(leaves);
    assert_eq!((pool.num_total(), pool.num_idle_of(&"b")), (3, 1));
    steps.go_on("create");
    let theirs = pool.clone();
    let due = Task::new(async move { theirs.maintain_async().await }).finish();
    assert_eq!((due, steps.begun(), steps.alive()), (None, 3, 3));
    assert_eq!((pool.num_total(), pool.num_idle_of(&"b")), (3, 1));
    drop((a, b));
}
