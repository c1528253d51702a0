//! Stock that is not finished: it comes after all that is, makes room before it, and costs nobody but two
//! borrowers their patience.

use crate::common::locked;
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Building, Rig, Step, Steps, rig};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, Failure, KeyedResourcePool, ResourceState,
};
use std::time::Duration;

/// A pool with one that was left unfinished, number 1; what is made from now on is finished at once.
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

/// A creation that hangs kept everybody from the good stock beside it, once: it was lent first, again and again
/// (PROP-RP-FINISHED-FIRST).
#[test]
fn finished_stock_is_lent_first() {
    for fifo in [false, true] {
        let rig = rig(|b| b.fifo(fifo));
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
        // Only who comes beside that takes it over, and first the one that was left first.
        let _lent = rig.lend();
        let first = rig.waits();
        let ids: Vec<_> = rig.pool.snapshot().keys[0].resources.iter().map(|r| r.id).collect();
        assert_eq!((ids, rig.steps.begun()), (vec![3, 1, 2], 3));
        drop(first);
    }
}

/// Who takes it over and leaves it, too, ends it: its place is given back, and who comes next begins anew
/// (PROP-RP-OFFERED-ONCE).
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

/// An outage: each creation hangs, and each borrower gives up. No more than every second one meets what another
/// has left, and the first after the outage that makes one itself is served.
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

/// Granted and never picked up: nobody has waited for it, so it is passed on, and kept.
#[test]
fn who_never_came_for_it_has_not_taken_it_over() {
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

/// Its lifetime is counted from when it was begun, its time as an idle one from when it was left.
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
        // The minimum, if there is one.
        let beside = rig.lend();
        rig.steps.on("create", Step::Held);
        let hangs = rig.waits();
        rig.clock.advance(4 * SECOND);
        drop((hangs, beside));
        rig.steps.go_on("create");
        assert_eq!(rig.steps.begun(), 2);
        let pass = || {
            let pool = rig.pool.clone();
            Task::new(async move { pool.maintain_async().await }).finish()
        };
        assert_eq!(pass(), Some(seconds * SECOND));
        rig.clock.advance(seconds * SECOND);
        pass();
        assert!(!states(&rig).contains(&ResourceState::Unfinished));
    }
    // And whoever comes upon it before the maintenance does has it leave.
    let rig = left(|b| b.max_idle_time(5 * SECOND));
    rig.steps.go_on("create");
    rig.clock.advance(5 * SECOND);
    assert_eq!(rig.lend().number, 2);
}

/// It counts for `max_idle`, where it makes room for what is finished, and is no stock that is ready.
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
    // And where there is a finished one, it is not kept.
    let lent = rig.lend();
    let hangs = rig.waits();
    drop(lent);
    drop(hangs);
    assert_eq!(states(&rig), [ResourceState::Idle]);

    let rig = left(|b| b.min_idle(1));
    rig.steps.go_on("create");
    let pool = rig.pool.clone();
    Task::new(async move { pool.maintain_async().await }).finish();
    assert_eq!((states(&rig), rig.steps.begun()), (vec![ResourceState::Idle], 1));
}

/// It makes room for other keys before what has been used, however long ago.
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

/// It is stock, and tested as such; what fails is destroyed, and its borrower gets another.
#[test]
fn it_is_tested_as_what_it_is() {
    let rig = left(|b| b.test_on_create(true).test_on_borrow(true));
    rig.steps.go_on("create");
    drop(rig.lend());
    assert_eq!(rig.steps.calls(), "create 1 validate 1 activate 1 validate 1");
    for (call, told) in [
        ("validate", "ValidatePanicked(\"on purpose\")"),
        ("activate", "ActivateFailed(Panicked(\"on purpose\"))"),
    ] {
        let rig = left(|b| b.max_total(1).test_on_borrow(true));
        rig.steps.on(call, Step::Panics);
        rig.steps.go_on("create");
        let (task, got) = rig.begin();
        drop(task);
        // So fails the one that is made for it, which is tested by nobody and activated like any.
        match call {
            "validate" => assert_eq!(got.expect("at once").expect("one").number, 2),
            _ => assert!(matches!(got, Some(Err(BorrowError::Activate(_))))),
        }
        assert_eq!(*locked(&rig.events), [told]);
        assert!(rig.steps.calls().contains("destroy 1"));
    }
}

/// What fails of another's in a closed pool is not made again.
#[test]
fn a_closed_pool_makes_none_anew() {
    let rig = left(|b| b.max_active(1));
    let mut task = rig.waits();
    rig.pool.close();
    rig.steps.on("create", Step::Fails);
    assert_eq!(task.poll().expect("it failed").map(drop), Err(BorrowError::Closed));
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (0, 0, 0)));
}

/// What was begun for stock, and left by who added it: it was thrown away once. It is as much stock as what a
/// borrower has left, and the next borrower finishes it; nothing is being added any more.
#[test]
fn what_was_begun_for_stock_is_kept() {
    let rig = rig(|b| b.max_total(2).test_on_create(true));
    rig.steps.on("create", Step::Held);
    let adds = rig.adds();
    assert_eq!((rig.counts(), states(&rig)), ((0, 0, 1), vec![ResourceState::BeingMade]));
    drop(adds);
    assert_eq!((rig.counts(), states(&rig)), ((0, 1, 1), vec![ResourceState::Unfinished]));
    let mut takes_over = rig.waits();
    rig.steps.go_on("create");
    let lent = takes_over.poll().expect("woken").expect("it was finished");
    assert_eq!((lent.number, rig.steps.calls().as_str()), (1, "create 1 validate 1 activate 1"));
    drop(lent);
    // Neither is there one too many, nor one too few.
    let pool = rig.pool.clone();
    Task::new(async move { pool.add_async().await }).finish().expect("room for one");
    let pool = rig.pool.clone();
    let full = Task::new(async move { pool.add_async().await }).finish();
    assert_eq!((full, rig.counts()), (Err(AddError::Full), (0, 2, 2)));
}

/// And a waiter at once, of whatever key it is.
#[test]
fn what_was_begun_for_stock_goes_to_who_waits() {
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
    // It makes room for another key's.
    assert_eq!(waiting.poll(), Some(Ok(())));
    assert_eq!((pool.num_keys(), pool.num_total(), steps.begun()), (1, 1, 2));
}

/// Nobody is to have it any more, or there is no room for it: it is dropped.
#[test]
fn what_was_begun_for_stock_is_not_kept_at_any_price() {
    let ends: [fn(&Rig); 5] = [
        |rig| rig.pool.close(),
        |rig| rig.pool.clear_all(),
        |rig| rig.pool.set_max_idle(0).expect("valid"),
        |rig| rig.clock.advance(5 * SECOND),
        |rig| {
            // Another is finished before: no more are idle than may be.
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

/// The pool is over when it has been left, though who was making it never came to the end.
#[test]
fn a_closed_pool_ends_with_what_was_begun_for_stock() {
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

/// Who takes it over and leaves it, too, ends it (PROP-RP-OFFERED-ONCE).
#[test]
fn what_was_begun_for_stock_is_taken_over_once() {
    let rig = rig(|b| b.max_total(1));
    rig.steps.on("create", Step::Held);
    drop(rig.adds());
    drop(rig.waits());
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 0, 0), 1));
    drop(rig.adds());
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 1, 1), 2));
}

/// So is what the maintenance was making when its task was dropped; the next pass polls it on.
#[test]
fn what_the_maintenance_has_begun_is_kept() {
    let rig = rig(|b| b.min_idle(1));
    rig.steps.on("create", Step::Held);
    let pass = || {
        let pool = rig.pool.clone();
        Task::new(async move { pool.maintain_async().await })
    };
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

/// One that maintains the pool, and has to wait for something.
#[track_caller]
fn fills_up(rig: &Rig) -> Task<Option<Duration>> {
    let pool = rig.pool.clone();
    let mut task = Task::new(async move { pool.maintain_async().await });
    assert!(task.poll().is_none(), "it is being made");
    task
}

/// What a borrower, who adds, or the maintenance has left has the only place: there was no minimum then, until
/// somebody borrowed (PROP-RP-REFILLED).
#[test]
fn the_minimum_is_filled_up_with_what_was_left() {
    let leave: [fn(&Rig); 3] =
        [|rig| drop(rig.waits()), |rig| drop(rig.adds()), |rig| drop(fills_up(rig))];
    for leaves in leave {
        let rig = rig(|b| b.min_idle(1).max_total(1));
        rig.steps.on("create", Step::Held);
        leaves(&rig);
        assert_eq!(states(&rig), [ResourceState::Unfinished]);
        let mut fills = fills_up(&rig);
        assert_eq!((states(&rig), rig.counts()), (vec![ResourceState::BeingMade], (0, 0, 1)));
        rig.steps.go_on("create");
        assert_eq!(fills.poll(), Some(None), "nothing is due");
        assert_eq!((states(&rig), rig.counts()), (vec![ResourceState::Idle], (0, 1, 1)));
        assert_eq!((rig.lend().number, rig.steps.begun()), (1, 1));
    }
}

/// Left by the maintenance, too, it gives its place back; if it fails, the key is left alone for a while.
#[test]
fn what_was_left_is_given_up_by_the_maintenance_as_by_a_borrower() {
    let rig = left(|b| b.min_idle(1).max_total(1));
    drop(fills_up(&rig));
    assert_eq!((rig.counts(), rig.steps.begun()), ((0, 0, 0), 1));
    let rig = left(|b| b.min_idle(1).max_total(1));
    rig.steps.on("create", Step::Fails);
    let pool = rig.pool.clone();
    let due = Task::new(async move { pool.maintain_async().await }).finish();
    assert_eq!((due, rig.counts()), (Some(SECOND / 2), (0, 0, 0)));
    assert_eq!(*locked(&rig.events), ["CreateFailed(Error(\"on purpose\"))"]);
}

/// It has the only place, and was in the way of who tried again.
#[test]
fn who_adds_polls_on_what_was_left() {
    let rig = left(|b| b.max_total(1));
    let mut adds = rig.adds();
    assert_eq!((states(&rig), rig.steps.begun()), (vec![ResourceState::BeingMade], 1));
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

/// The failure of what another had begun is that of who adds: it needs no place any more.
#[test]
fn who_adds_fails_with_what_was_left() {
    let rig = left(|b| b.max_total(1));
    rig.steps.on("create", Step::Fails);
    let pool = rig.pool.clone();
    let added = Task::new(async move { pool.add_async().await }).finish();
    let failed = Err(AddError::Create(Failure::Error("on purpose".to_owned())));
    assert_eq!((added, rig.counts(), rig.steps.begun()), (failed, (0, 0, 0), 1));
}

/// The key is left alone for a while, and there is no room for it after that: what was left of another is no reason
/// to come for it.
#[test]
fn what_was_left_of_a_key_is_not_due_for_another() {
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
    let a = borrow("a").finish().expect("made");
    steps.on("create", Step::Fails);
    assert_eq!(due(), Some(SECOND / 2));
    steps.go_on("create");
    let b = borrow("b").finish().expect("made");
    steps.on("create", Step::Held);
    let mut leaves = borrow("b");
    assert!(leaves.poll().is_none());
    drop(b);
    assert_eq!((due(), pool.num_total()), (None, 3));
    drop(leaves);
    assert_eq!((due(), pool.num_total(), pool.num_idle_of(&"b")), (None, 3, 2));
    steps.go_on("create");
    drop(borrow("b").finish().expect("in stock").detach());
    assert_eq!((due(), pool.num_idle_of(&"b")), (Some(SECOND / 2), 1), "there is room for it");
    drop(a);
}

/// With keys, at the limit of one key and at that of all: of those below their minimum, what was left is of the
/// second.
#[test]
fn a_key_that_has_no_room_keeps_no_other_from_what_was_left_of_it() {
    let steps = Steps::default();
    let pool = KeyedResourcePool::builder(Async(steps.clone()));
    let pool = pool.min_idle(1).max_total(3).max_total_per_key(2).build_async().expect("valid");
    let borrow = |key: &'static str| {
        let pool = pool.clone();
        Task::new(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) })
    };
    let a = borrow("a").finish().expect("made");
    let b = borrow("b").finish().expect("made");
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
