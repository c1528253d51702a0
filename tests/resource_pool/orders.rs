//! Orders: in a pool with a runtime the pool creates, and its borrowers wait. How many creations are in flight; which are
//! dropped; whose error a failure is; and the end of the runtime.

use crate::common::locked;
use crate::creations::{Hand, held, held_on_a_runtime, number};
use crate::runtimes::HOUR;
use crate::shared::SECOND;
use crate::shared::random::{Random, for_each_seed};
use crate::shared::task::Task;
use crate::shared::woken::{Sleep, Woken};
use crate::steps::{Building, Rig, Step, Steps, begin_borrow, rig_on};
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{
    Async, BorrowError, Borrowed, BuildError, Failure, KeyedResourcePool, ResourcePool,
    WhenExhausted,
};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Keyed = KeyedResourcePool<&'static str, Async<Steps>>;

type Set = fn(Building) -> Building;

/// Returns a keyed pool on a runtime, on the system's clock.
fn keyed(
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

/// Whatever borrowers do, no more creations are in flight than have waited at the same time, beside the minimum.
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

/// What was ordered is not passivated before its first use. If its activation fails, so does the borrow (PROP-RP-FIRST-USE).
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

/// `clear_all` drops what is in flight. Its place counts until its task has dropped it, and is then ordered anew.
#[test]
fn a_clear_drops_creations_in_flight() {
    for waits in [true, false] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
        let mut borrower = Some(rig.waits()).filter(|_| waits);
        rig.steps.hangs();
        rig.pool.clear_all();
        assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)), "its task has yet to run");
        assert_eq!((hand.run(), rig.steps.held()), (0, 0));
        assert_eq!((rig.steps.begun(), rig.counts().2), if waits { (2, 1) } else { (1, 0) });
        if let Some(borrower) = &mut borrower {
            assert_eq!(number(borrower), Some(2));
        }
        assert!(locked(&rig.events).is_empty(), "the runtime has not ended");
    }
}

/// `close` drops them, of each key, and refuses their borrowers.
#[test]
fn a_close_drops_creations_in_flight() {
    for overdue in [true, false] {
        let (pool, steps, hand) = keyed(|b| b.max_active(3).max_idle(3));
        steps.on("create", Step::Held);
        let mut borrowers = ["a", "a", "b", "a", "b"].map(|key| begin_borrow(&pool, key));
        if overdue {
            hand.overdue();
        }
        let mut end = Task::new({
            let pool = pool.clone();
            async move { pool.wait_closed_async().await }
        });
        assert!(end.poll().is_none());
        let in_flight = steps.held();
        pool.close();
        assert_eq!((in_flight >= 5, pool.num_total(), end.wakes()), (true, in_flight, 0));
        assert!(borrowers.iter_mut().all(|one| one.poll() == Some(Err(BorrowError::Closed))));
        hand.run();
        assert_eq!((steps.held(), pool.num_total(), end.poll()), (0, 0, Some(())));
        assert_eq!((hand.0.run(), hand.0.timers()), (0, 0));
    }
}

/// The task runs only after the close, or has not begun.
#[test]
fn a_close_drops_creations_whose_task_has_not_begun() {
    let hand = Hand::lazy();
    let rig = rig_on(|b| b, hand.clone());
    let mut waits = rig.waits();
    rig.pool.close();
    assert_eq!(rig.counts(), (0, 0, 1));
    assert_eq!((hand.run(), rig.steps.alive(), rig.counts()), (0, 0, (0, 0, 0)));
    assert!(matches!(waits.poll(), Some(Err(BorrowError::Closed))));
    assert!(locked(&rig.events).is_empty());
}

/// It ends in the very poll in which it would be dropped.
#[test]
fn a_creation_that_ends_too_late_is_destroyed() {
    let ends: [fn(&Rig); 2] = [|rig| rig.pool.close(), |rig| rig.pool.clear_all()];
    for end in ends {
        for call in ["create", "validate"] {
            let hand = Hand::default();
            let rig = rig_on(|b| b.test_on_create(true), hand.clone());
            rig.steps.on(call, Step::Held);
            drop(rig.waits());
            rig.steps.go_on(call);
            end(&rig);
            assert_eq!(hand.run(), 0);
            assert_eq!((rig.steps.alive(), rig.counts()), (0, (0, 0, 0)));
        }
    }
}

/// Each creation that fails is the error of one borrower, the oldest first (PROP-RP-FAILURE).
#[test]
fn a_failure_is_the_oldest_borrowers() {
    let failed = || Err(BorrowError::Create(Failure::Error("on purpose".to_owned())));
    let (rig, hand) = held_on_a_runtime(|b| b.max_active(2));
    let mut all = [rig.waits(), rig.waits(), rig.waits()];
    for (nth, begun) in [(0, 3), (1, 3), (2, 3)] {
        rig.steps.fail_first();
        hand.run();
        assert_eq!(
            (rig.steps.begun(), rig.steps.held()),
            (begun, 2 - nth),
            "the third has one, too"
        );
        let (got, others) = all[nth..].split_first_mut().expect("each has its turn");
        assert_eq!(got.poll().map(|got| got.map(drop)), Some(failed()));
        assert!(others.iter_mut().all(|other| other.poll().is_none()));
    }
    assert_eq!(rig.counts(), (0, 0, 0));
    assert!(locked(&rig.events).is_empty(), "each is told to one borrower");
}

/// No borrower gets an error that is older than its call: the listener does. The borrower waits on, and another is ordered.
#[test]
fn a_failure_older_than_the_borrower_is_reported() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    let mut second = rig.waits();
    assert_eq!(rig.steps.begun(), 1);
    rig.steps.fail_first();
    hand.run();
    assert_eq!(*locked(&rig.events), ["CreateFailed(Error(\"on purpose\"))"]);
    assert_eq!((rig.steps.begun(), second.poll().is_some()), (2, false));
    rig.steps.go_on("create");
    hand.run();
    assert_eq!(number(&mut second), Some(2));
    // With no borrower left it is reported, too.
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    rig.steps.on("create", Step::Fails);
    rig.steps.go_on("nothing");
    assert_eq!((hand.run(), locked(&rig.events).len(), rig.counts()), (0, 1, (0, 0, 0)));
}

/// The borrower was granted the error, and leaves before it has picked it up.
#[test]
fn a_failure_that_is_not_picked_up_is_reported() {
    for panics in [false, true] {
        let (rig, hand) = held_on_a_runtime(|b| b);
        let (first, mut second) = (rig.waits(), rig.waits());
        rig.steps.on("create", if panics { Step::Panics } else { Step::Fails });
        rig.steps.go_on("nothing");
        assert_eq!((hand.run(), first.wakes(), second.wakes()), (0, 1, 1));
        assert!(locked(&rig.events).is_empty());
        drop(first);
        let said = locked(&rig.events).clone();
        assert!(said.len() == 1 && said[0].starts_with("CreateFailed"), "{said:?}");
        assert!(second.poll().expect("its own error").is_err());
        assert_eq!((locked(&rig.events).len(), rig.counts()), (1, (0, 0, 0)));
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
