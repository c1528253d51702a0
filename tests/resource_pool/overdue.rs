//! Creations of the pool that take long: another one is ordered, beside them or in their place.

use crate::common::locked;
use crate::creations::{held_on_a_runtime, number};
use crate::orders::{Keyed, Set, keyed};
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::shared::woken::{Sleep, Woken};
use crate::steps::Steps;
use crate::steps::{Building, Step, begin_borrow};
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{Async, Borrowed, KeyedResourcePool};
use cabrank::resource_pool::{BorrowError, Failure};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::time::Instant;
/// An overdue creation may hang: another one is ordered, beside it.
#[test]
fn another_is_ordered_for_one_that_is_overdue() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    let mut waits = rig.waits();
    rig.steps.hangs();
    assert_eq!((hand.run(), rig.steps.begun()), (1, 1));
    hand.overdue();
    assert_eq!((rig.steps.begun(), number(&mut waits)), (2, Some(2)));
    assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 1, 2)));
    // One that ends after all is as good as any other.
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    let mut waits = rig.waits();
    hand.overdue();
    assert_eq!(rig.steps.held(), 2);
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.counts()), (0, (1, 1, 2)));
    assert_eq!((number(&mut waits), rig.counts()), (Some(1), (0, 2, 2)));
}

/// Where the limits allow no other, it is dropped: for a borrower that came after it, before or after it is overdue.
#[test]
fn an_overdue_creation_gives_way() {
    let limits: [Set; 2] = [|b| b.max_active(1), |b| b.max_total(1)];
    for (limit, waits_before) in [(0, true), (0, false), (1, true), (1, false)] {
        let (rig, hand) = held_on_a_runtime(limits[limit]);
        drop(rig.waits());
        let early = waits_before.then(|| rig.waits());
        assert_eq!((hand.run(), rig.steps.held(), rig.steps.begun()), (1, 1, 1));
        rig.steps.hangs();
        hand.overdue();
        assert_eq!(rig.steps.held(), usize::from(!waits_before));
        // At the limit of loans it does not wait for the task to drop the old one.
        let (mut waits, got) = early.map_or_else(|| rig.begin(), |early| (early, None));
        hand.run();
        let lent = got.or_else(|| waits.poll()).expect("served").expect("a resource");
        assert_eq!((lent.number, rig.steps.held(), rig.counts()), (2, 0, (1, 0, 1)));
    }
}

/// A connect slower than `overdue_after` is begun once, for a borrower that waits for it; not again and again.
/// (PROP-RP-DROPPED)
#[test]
fn an_overdue_creation_that_is_awaited_stays() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
    let (mut patient, later) = (rig.waits(), rig.waits());
    for _ in 0..5 {
        hand.overdue();
    }
    assert_eq!((rig.steps.begun(), rig.steps.held(), patient.wakes()), (1, 1, 0));
    rig.steps.go_on("create");
    hand.run();
    assert_eq!((number(&mut patient), later.wakes()), (Some(1), 1));
    // Once the patient one leaves, the other one came after it.
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
    let (patient, mut later) = (rig.waits(), rig.waits());
    hand.overdue();
    rig.steps.hangs();
    drop(patient);
    assert_eq!((hand.run(), rig.steps.begun(), number(&mut later)), (0, 2, Some(2)));
}

/// Where all connects hang, a patient borrower learns so in the time of a creation.
#[test]
fn a_patient_borrower_gets_its_time_out() {
    for places in [1, 3] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(places));
        let mut patient = rig.waits();
        for _ in 0..29 {
            hand.0.pass(SECOND);
            assert!(patient.poll_if_woken().is_none());
        }
        assert_eq!(rig.steps.begun(), places);
        hand.0.pass(2 * SECOND);
        let why = patient.poll().expect("it took too long").map(drop);
        assert_eq!(why, Err(BorrowError::Create(Failure::TimedOut)));
    }
}

/// Overdue ones count for `max_active`. Otherwise a server that hangs would have more and more of them.
#[test]
fn overdue_creations_are_bounded() {
    let unlimited = |b: Building| b.max_active(None).max_total(None).create_timeout(None);
    let limits: [(Set, usize); 2] =
        [(|b| b.max_active(3).create_timeout(None), 3), (unlimited, 100)];
    for (limit, most) in limits {
        let (rig, hand) = held_on_a_runtime(limit);
        let waits = rig.waits();
        for _ in 0..200 {
            hand.overdue();
        }
        let held = rig.steps.held();
        assert!((3..=most).contains(&held), "{held} hang");
        drop(waits);
        rig.pool.close();
        assert_eq!((hand.run(), rig.steps.held(), rig.counts()), (0, 0, (0, 0, 0)));
    }
}

/// The default is a second, or half of a short `create_timeout`.
#[test]
fn a_creation_is_overdue_after_its_time() {
    const PART: Duration = Duration::from_millis(500);
    let times: [(Set, u32); 4] = [
        (|b| b, 2),
        (|b| b.create_timeout(None), 2),
        (|b| b.create_timeout(2 * PART), 1),
        (|b| b.overdue_after(4 * PART), 4),
    ];
    for (time, parts) in times {
        let (rig, hand) = held_on_a_runtime(|b| time(b.max_total(1)));
        drop(rig.waits());
        rig.steps.hangs();
        let mut waits = rig.waits();
        // It falls short by a little more than a busy machine takes.
        hand.0.pass(PART * parts - PART / 2);
        assert_eq!((rig.steps.begun(), waits.wakes()), (1, 0), "{parts}");
        hand.0.pass(PART);
        assert_eq!((rig.steps.begun(), number(&mut waits)), (2, Some(2)), "{parts}");
    }
}

/// At the limit of a key only its own creations give way; at the limit of all keys, that which was ordered first.
#[test]
fn an_overdue_creation_of_the_right_key_gives_way() {
    // The total is full, and so is the key: the older one, of another key, would make no room.
    let (pool, steps, hand) = keyed(|b| b.max_total(2).max_total_per_key(1));
    steps.on("create", Step::Held);
    drop((begin_borrow(&pool, "other"), begin_borrow(&pool, "full")));
    steps.hangs();
    hand.overdue();
    let mut waits = begin_borrow(&pool, "full");
    hand.run();
    assert_eq!((waits.poll(), steps.held(), steps.begun()), (Some(Ok(())), 1, 3));
    let of_key =
        |key: &str| pool.snapshot().keys.iter().find(|k| k.key() == Some(&key)).map(|k| k.total);
    assert_eq!((of_key("other"), of_key("full")), (Some(1), Some(1)));
    // The limit of all keys.
    let (pool, steps, hand) = keyed(|b| b.max_total(1));
    steps.on("create", Step::Held);
    let (left, mut waits) = (begin_borrow(&pool, "a"), begin_borrow(&pool, "b"));
    drop(left);
    steps.hangs();
    hand.overdue();
    assert_eq!((waits.wakes(), waits.poll()), (1, Some(Ok(()))));
}

/// One waiter needs one place.
#[test]
fn one_overdue_creation_gives_way_to_one_waiter() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    drop((rig.waits(), rig.waits()));
    hand.overdue();
    rig.steps.hangs();
    let mut waits = rig.waits();
    // The younger one is polled first.
    hand.0.reverse();
    assert_eq!((hand.run(), rig.steps.held()), (1, 1));
    assert_eq!(number(&mut waits), Some(3));
}

/// Each in its turn: one that gave way before, and was dropped since, keeps none from it.
#[test]
fn one_overdue_creation_after_the_other_gives_way() {
    let (pool, steps, hand) = keyed(|b| b.max_total(1));
    steps.on("create", Step::Held);
    for (key, begun) in [("a", 1), ("b", 2), ("c", 3)] {
        let waits = begin_borrow(&pool, key);
        hand.run();
        assert_eq!((steps.begun(), pool.num_total()), (begun, 1), "{key}");
        drop(waits);
        hand.overdue();
    }
}

/// The key of an overdue creation is no longer among those that give way once the creation has ended: it may be forgotten then.
#[test]
fn a_key_whose_overdue_creation_has_failed_gives_way_no_more() {
    let (pool, steps, hand) = keyed(|b| b.max_total(2).max_active(None));
    let first = Task::new({
        let pool = pool.clone();
        async move { pool.borrow_async(&"b").await.map(Borrowed::into_owned) }
    })
    .poll()
    .expect("at once")
    .expect("a resource");
    steps.on("create", Step::Held);
    drop(begin_borrow(&pool, "a"));
    hand.overdue();
    assert_eq!((steps.held(), pool.num_keys()), (1, 2));
    steps.fail_first();
    hand.run();
    assert_eq!((steps.held(), pool.num_keys()), (0, 1), "the other key is forgotten");
    steps.go_on("create");
    let second = Task::new({
        let pool = pool.clone();
        async move { pool.borrow_async(&"b").await.map(Borrowed::into_owned) }
    })
    .poll()
    .expect("at once")
    .expect("a resource");
    // It looks for an overdue creation that gives way, and finds none.
    let mut third = begin_borrow(&pool, "b");
    drop(first);
    assert_eq!(third.poll(), Some(Ok(())));
    drop(second);
}

/// A refill that is overdue may hang: the minimum is refilled beside it.
#[test]
fn another_refill_is_ordered_beside_one_that_is_overdue() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_idle(3));
    rig.pool.set_min_idle(1).expect("valid");
    hand.run();
    assert_eq!((rig.steps.begun(), rig.steps.held(), rig.counts()), (1, 1, (0, 0, 1)));
    rig.steps.hangs();
    hand.overdue();
    assert_eq!((rig.steps.begun(), rig.steps.held(), rig.counts()), (2, 1, (0, 1, 2)));
}

/// A runtime that notes until when its timers sleep.
#[derive(Clone, Default)]
struct Noting(Woken, Arc<Mutex<Vec<Instant>>>);

impl Runtime for Noting {
    type Sleep = Sleep;
    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        locked(&self.1).push(at);
        self.0.sleep_until(at)
    }
}

/// The time until a creation is overdue begins with the creation, and not with the destruction of its victim.
#[test]
fn the_time_of_a_destruction_does_not_count_for_the_creation_in_its_place() {
    crate::shared::end_the_run_when_the_library_panics();
    const HOUR: Duration = Duration::from_secs(3600);
    const LONG: Duration = Duration::from_millis(300);
    let (steps, runtime) = (Steps::default(), Noting(Woken::eager(), Arc::default()));
    let builder = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
    let builder = builder.create_timeout(None).overdue_after(HOUR).destroy_timeout(LONG);
    let pool: Keyed = builder.build_on(runtime.clone()).expect("a valid pool");
    Task::new({
        let pool = pool.clone();
        async move { pool.add_async(&"a").await }
    })
    .poll()
    .expect("at once")
    .expect("a resource");
    steps.on("create", Step::Held);
    steps.on("destroy", Step::Held);
    let waits = begin_borrow(&pool, "b");
    assert_eq!(steps.begun(), 1, "the victim is destroyed first");
    // In real time: the timer of the runtime has no other, and only a lower bound is asserted.
    std::thread::sleep(LONG);
    let destroyed = Instant::now();
    steps.go_on("destroy");
    steps.on("create", Step::Held);
    runtime.0.run();
    assert_eq!(steps.begun(), 2);
    let overdue = locked(&runtime.1).iter().copied().max().expect("the timer of the creation");
    // The clock of the pool is coarse, by less than half of this time.
    assert!(overdue + LONG / 2 >= destroyed + HOUR, "{:?} too early", (destroyed + HOUR) - overdue);
    drop(waits);
}
