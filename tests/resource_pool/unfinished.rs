//! Stock that is not finished: it comes after all that is, makes room before it, and costs nobody but two
//! borrowers their patience.

use crate::common::locked;
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Building, Rig, Step, Steps, rig};
use cabrank::resource_pool::{Async, BorrowError, Borrowed, KeyedResourcePool, ResourceState};

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
        rig.steps.on("create", Step::Held);
        let hangs = rig.waits();
        rig.clock.advance(4 * SECOND);
        drop(hangs);
        rig.steps.go_on("create");
        assert_eq!(rig.steps.begun(), 1);
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
    assert_eq!(states(&rig), [ResourceState::Unfinished, ResourceState::Idle]);
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
