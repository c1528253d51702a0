//! Orders: in a pool with a runtime the pool creates, and its borrowers wait. How many creations are in flight, for whom, and
//! where the limits bound them.

use crate::common::locked;
use crate::creations::{Hand, held, held_on_a_runtime, number};
use crate::runtimes::HOUR;
use crate::shared::SECOND;
use crate::shared::random::{Random, for_each_seed};
use crate::shared::task::Task;
use crate::shared::woken::Woken;
use crate::steps::{Building, Step, Steps, begin_borrow, rig_on};
use cabrank::resource_pool::{
    Async, BorrowError, Borrowed, BuildError, Failure, KeyedResourcePool, ResourcePool,
    WhenExhausted,
};
use std::time::Duration;

pub(crate) type Keyed = KeyedResourcePool<&'static str, Async<Steps>>;

pub(crate) type Set = fn(Building) -> Building;

/// Returns a keyed pool on a runtime, on the system's clock.
pub(crate) fn keyed(
    configure: impl FnOnce(
        cabrank::resource_pool::Builder<Async<Steps>, Keyed>,
    ) -> cabrank::resource_pool::Builder<Async<Steps>, Keyed>,
) -> (Keyed, Steps, Hand) {
    crate::shared::end_the_run_when_the_library_panics();
    let (steps, hand) = (Steps::default(), Hand::default());
    let builder = configure(KeyedResourcePool::builder(Async(steps.clone())));
    let pool = builder.build_on(hand.clone()).expect("a valid pool");
    (pool, steps, hand)
}

/// Two borrowers with loans shorter than the connect: one of them always waits, and one creation is in flight.
#[test]
fn two_borrowers_open_two_connections() {
    let hand = Hand::default();
    let rig = rig_on(|b| b.max_total(50), hand.clone());
    let mut lent = rig.lend();
    rig.steps.on("create", Step::Held);
    for _ in 0..20 {
        let mut other = rig.waits();
        drop(lent);
        lent = other.poll().expect("what came back").expect("it is lent");
        assert_eq!((rig.steps.held(), rig.counts()), (1, (1, 0, 2)));
    }
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.steps.begun(), rig.counts()), (0, 2, (1, 1, 2)));
    drop(lent);
}

/// The next borrower waits for the same creation, which becomes idle if no borrower is left.
#[test]
fn a_creation_goes_on_without_its_borrower() {
    for polled in [true, false] {
        let hand = if polled { Hand::default() } else { Hand::lazy() };
        let rig = rig_on(|b| b, hand.clone());
        rig.steps.on("create", Step::Held);
        for _ in 0..5 {
            drop(rig.waits());
        }
        assert_eq!(rig.counts(), (0, 0, 1), "none of them is active");
        let mut last = rig.waits();
        assert_eq!((hand.run(), rig.steps.begun()), (1, 1));
        rig.steps.go_on("create");
        assert_eq!((hand.run(), number(&mut last), rig.counts()), (0, Some(1), (0, 1, 1)));
        rig.pool.clear();
        rig.steps.on("create", Step::Held);
        drop(rig.waits());
        hand.run();
        rig.steps.go_on("create");
        assert_eq!((hand.run(), rig.steps.begun(), rig.counts()), (0, 2, (0, 1, 1)));
    }
}

/// Without a runtime a creation ends with its borrower: see `creations.rs`. With one, an addition does.
#[test]
fn an_addition_ends_with_its_caller() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    let adds = rig.adds();
    assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)));
    drop(adds);
    assert_eq!((hand.run(), rig.steps.held(), rig.counts()), (0, 0, (0, 0, 0)));
}

/// No more creations are in flight than borrowers have waited at the same time, beside the minimum.
#[test]
fn creations_are_as_many_as_borrowers_that_wait() {
    for_each_seed(30, |seed| {
        let mut random = Random::new(seed);
        let min_idle = random.below(3);
        let hand = Hand::default();
        let fair = random.one_in(2);
        let rig = rig_on(|b| b.min_idle(min_idle).max_total(100).fair(fair), hand.clone());
        rig.steps.on("create", Step::Held);
        let (mut waiting, mut lent, mut most) = (Vec::new(), Vec::new(), 0);
        for _ in 0..200 {
            match random.below(5) {
                0 | 1 => waiting.push(rig.begin()),
                2 if !waiting.is_empty() => {
                    waiting.swap_remove(random.below(waiting.len()));
                }
                3 if rig.steps.held() > 0 => {
                    rig.steps.release_first("create");
                    hand.run();
                }
                _ => drop(lent.pop()),
            }
            most = most.max(rig.pool.num_waiting());
            for (mut task, got) in std::mem::take(&mut waiting) {
                match got.or_else(|| task.poll()) {
                    Some(got) => lent.push(got.expect("a resource")),
                    None => waiting.push((task, None)),
                }
            }
            hand.run();
            let held = rig.steps.held();
            assert!(held <= most + min_idle, "{held} creations for {most} borrowers");
            assert!(held >= rig.pool.num_waiting(), "each waiter has one");
        }
        drop((waiting, lent));
        rig.steps.go_on("create");
        rig.pool.close();
        assert_eq!((hand.run(), rig.counts(), rig.steps.alive()), (0, (0, 0, 0), 0));
    });
}

/// A borrower that leaves does not end the creation of another that waits.
#[test]
fn a_borrower_that_leaves_takes_no_creation_with_it() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_active(1));
    let (first, mut second) = (rig.waits(), rig.waits());
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (0, 0, 1)), "one may be lent");
    drop(first);
    assert_eq!((hand.run(), rig.steps.begun()), (1, 1));
    rig.steps.go_on("create");
    hand.run();
    assert_eq!(number(&mut second), Some(1));
}

/// A resource that was ordered is not passivated before its first use. If its activation fails, so does the borrow (PROP-RP-FIRST-USE).
#[test]
fn the_first_use_of_what_was_ordered() {
    let hand = Hand::default();
    let rig = rig_on(|b| b.min_idle(1).test_on_create(true).test_on_borrow(true), hand.clone());
    hand.run();
    assert_eq!(rig.steps.calls(), "create 1 validate 1");
    // It was idle: it is like any other now.
    rig.pool.set_min_idle(0).expect("valid");
    let lent = rig.lend();
    assert_eq!(rig.steps.calls(), "activate 1 validate 1");
    rig.steps.on("activate", Step::Fails);
    let why = rig.begin().1.expect("at once").map(drop);
    assert_eq!(why, Err(BorrowError::Activate(Failure::Error("on purpose".to_owned()))));
    assert_eq!(rig.steps.calls(), "create 2 validate 2 activate 2 destroy 2");
    assert_eq!((rig.counts(), locked(&rig.events).len()), ((1, 0, 1), 0));
    drop(lent);
}

/// The idle resource of a borrower fails its test: the borrower is again before those that came after it.
#[test]
fn a_borrower_whose_resource_fails_keeps_its_place() {
    let hand = Hand::default();
    let rig = rig_on(|b| b.test_on_borrow(true), hand.clone());
    drop(rig.lend());
    rig.steps.on("validate", Step::Held);
    let mut first = rig.waits();
    rig.steps.on("create", Step::Held);
    let mut second = rig.waits();
    rig.steps.on("validate", Step::Fails);
    assert!(first.poll().is_none());
    assert_eq!((rig.steps.begun(), rig.steps.held()), (3, 2), "it has a creation, too");
    rig.steps.release_first("create");
    hand.run();
    assert_eq!((number(&mut first), second.poll().is_some()), (Some(2), false));
}

/// An order takes the place of an idle resource of another key, which is destroyed also if the task never runs.
#[test]
fn the_victim_of_an_order_is_destroyed_with_its_task() {
    for ends in [true, false] {
        let (steps, hand) = (Steps::default(), Hand::lazy());
        let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
        let pool = pool.build_on(hand.clone()).expect("a valid pool");
        let mut first = begin_borrow(&pool, "a");
        hand.run();
        assert_eq!((first.poll(), pool.num_idle()), (Some(Ok(())), 1));
        let mut other = begin_borrow(&pool, "b");
        assert_eq!((pool.num_idle(), pool.num_total(), steps.alive()), (0, 1, 1));
        if ends {
            hand.shut_down();
        }
        hand.run();
        assert_eq!((other.poll(), steps.alive(), steps.begun()), (Some(Ok(())), 1, 2));
        assert_eq!((pool.num_idle_of(&"b"), pool.num_keys()), (1, 1));
    }
}

/// The oldest borrower goes first, whatever its key is (PROP-RP-NEXT-ORDER).
#[test]
fn creations_at_the_same_time_are_limited() {
    let (pool, steps, hand) = keyed(|b| b.max_creating(1));
    steps.on("create", Step::Held);
    let (mut first, mut second, mut third) =
        (begin_borrow(&pool, "a"), begin_borrow(&pool, "b"), begin_borrow(&pool, "a"));
    for (begun, wakes) in [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1])] {
        assert_eq!((steps.begun(), steps.held()), (begun, 1));
        steps.release_first("create");
        hand.run();
        assert_eq!([first.wakes(), second.wakes(), third.wakes()], wakes);
    }
    assert!([&mut first, &mut second, &mut third].iter_mut().all(|one| one.poll() == Some(Ok(()))));
    // One that is overdue does not count.
    let (pool, steps, hand) = keyed(|b| b.max_creating(1));
    steps.on("create", Step::Held);
    let (_hangs, mut waits) = (begin_borrow(&pool, "a"), begin_borrow(&pool, "b"));
    steps.hangs();
    assert_eq!(steps.begun(), 1);
    hand.overdue();
    assert_eq!(waits.poll(), Some(Ok(())));
}

/// A borrow that does not wait waits for a creation of its own, where there is room for one.
#[test]
fn a_borrow_that_does_not_wait_is_lent_what_is_created_for_it() {
    let fail = |b: Building| b.when_exhausted(WhenExhausted::Fail);
    let limits: [Set; 3] = [|b| b.max_active(1), |b| b.max_total(1), |b| b.max_creating(1)];
    for limit in limits {
        let (rig, hand) = held_on_a_runtime(|b| fail(limit(b)));
        let mut first = rig.waits();
        let refused = rig.begin().1.expect("at once").map(drop);
        assert_eq!(refused, Err(BorrowError::Exhausted));
        rig.steps.go_on("create");
        hand.run();
        assert_eq!(number(&mut first), Some(1));
        let (rig, hand) = held_on_a_runtime(limit);
        let tries = || {
            let pool = rig.pool.clone();
            Task::new(async move { pool.try_borrow_async().await.map(Borrowed::into_owned) })
        };
        let mut first = tries();
        assert!(first.poll().is_none());
        assert!(matches!(tries().poll(), Some(Err(BorrowError::WouldBlock))));
        rig.steps.go_on("create");
        hand.run();
        assert_eq!(number(&mut first), Some(1));
    }
}

/// The refills of all keys are in flight together.
#[test]
fn a_key_that_hangs_keeps_no_other_from_its_minimum() {
    let (pool, steps, hand) = keyed(|b| b.min_idle(1));
    let lend = |key: &'static str| {
        let theirs = pool.clone();
        let mut borrows =
            Task::new(async move { theirs.borrow_async(&key).await.map(Borrowed::into_owned) });
        borrows.poll().expect("at once").expect("a resource")
    };
    let one = lend("a");
    steps.on("create", Step::Held);
    hand.run();
    assert_eq!(steps.held(), 1, "the refill of the first key");
    steps.hangs();
    let other = lend("b");
    hand.run();
    assert_eq!((pool.num_idle_of(&"a"), pool.num_idle_of(&"b"), steps.held()), (0, 1, 1));
    drop((one, other));
}

/// A refill is an order: it counts for the minimum, goes to a borrower, gives way, and is dropped by a close.
#[test]
fn a_refill_is_an_order() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
    rig.pool.set_min_idle(1).expect("valid");
    hand.run();
    assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)));
    let mut waits = rig.waits();
    hand.run();
    assert_eq!(rig.steps.held(), 1, "it is for the borrower");
    rig.steps.hangs();
    hand.overdue();
    assert_eq!((number(&mut waits), rig.counts()), (Some(2), (0, 1, 1)));
    for runtime in [true, false] {
        let (rig, hand) = match runtime {
            true => held_on_a_runtime(|b| b),
            false => (held(|b| b), Hand::default()),
        };
        rig.pool.set_min_idle(1).expect("valid");
        // With a runtime, the maintenance of a caller only orders.
        let mut pass = rig.pass();
        assert_eq!(pass.poll().is_some(), runtime);
        hand.run();
        assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)));
        rig.pool.close();
        drop(pass);
        hand.run();
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
    }
}

/// A creation that a borrower has left counts for the minimum.
#[test]
fn a_creation_that_was_left_refills_the_idle_list() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    rig.pool.set_min_idle(1).expect("valid");
    hand.run();
    rig.steps.go_on("create");
    hand.run();
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (0, 1, 1)));
}

/// Both options need a runtime, and none may be zero.
#[test]
fn options_of_orders_that_are_refused() {
    let builder = || ResourcePool::builder(Async(Steps::default()), "m");
    let options: [(&str, Set); 2] =
        [("overdue_after", |b| b.overdue_after(SECOND)), ("max_creating", |b| b.max_creating(1))];
    for (name, set) in options {
        let why = set(builder()).build_async().map(drop).expect_err("refused");
        assert!(
            matches!(why, BuildError::NotWith { option, with: "build_async", .. } if option == name)
        );
        assert!(set(builder()).build_on(Woken::default()).is_ok());
    }
    let blocking = ResourcePool::builder(crate::runtimes::Numbers, ()).max_creating(1).build();
    assert!(matches!(blocking, Err(BuildError::NotWith { option: "max_creating", .. })));
    let blocking =
        ResourcePool::builder(crate::runtimes::Numbers, ()).overdue_after(SECOND).build();
    assert!(matches!(blocking, Err(BuildError::NotWith { option: "overdue_after", .. })));
    let zeros: [(&str, Set); 2] = [
        ("overdue_after", |b| b.overdue_after(Duration::ZERO)),
        ("max_creating", |b| b.max_creating(0)),
    ];
    for (name, set) in zeros {
        let why = set(builder()).build_on(Woken::default()).map(drop).expect_err("refused");
        assert!(matches!(why, BuildError::Zero(option) if option == name));
    }
    // Another creation needs time, too.
    let build = |b: Building| b.build_on(Woken::default()).map(drop);
    for (limit, most) in [(Some(4 * SECOND), 2 * SECOND), (None, HOUR)] {
        let with = |overdue| build(builder().create_timeout(limit).overdue_after(overdue));
        assert!(with(most).is_ok());
        let above = with(most + Duration::from_nanos(1));
        assert_eq!(above.is_err(), limit.is_some());
        let named = |why| {
            matches!(
                why,
                BuildError::NotWith { option: "overdue_after", with: "create_timeout", .. }
            )
        };
        assert!(above.err().is_none_or(named));
    }
    // The default limit is 30 seconds, and one so short that it cannot be halved is one.
    assert!(build(builder().overdue_after(15 * SECOND)).is_ok());
    assert!(build(builder().overdue_after(16 * SECOND)).is_err());
    assert!(build(builder().create_timeout(Duration::from_nanos(1))).is_ok());
}
