//! Creations that their borrowers have left: they go on, give way, or end with the pool and its runtime.

use crate::common::locked;
use crate::creations::{Hand, held, held_on_a_runtime, number};
use crate::shared::SECOND;
use crate::shared::task::Task;
use crate::steps::{Step, Steps, begin_borrow};
use cabrank::resource_pool::{Async, Borrowed, KeyedResourcePool};

#[test]
fn an_orphaned_creation_goes_on_where_there_is_a_runtime() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_active(1));
    let first = rig.waits();
    let mut second = rig.waits();
    drop(first);
    // The waiter creates too, and takes what is ready first.
    assert!(second.poll().is_none());
    assert_eq!((rig.steps.begun(), rig.counts()), (2, (1, 0, 2)));
    rig.steps.release_first("create");
    assert_eq!(hand.run(), 0);
    assert!(second.wakes() > 1);
    assert_eq!(number(&mut second), Some(1));
    // Its own goes on; there is no room for a second idle one.
    assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 1, 2)));
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.counts()), (0, (0, 1, 1)));

    // If it fails, the listener is notified.
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    drop(rig.adds());
    rig.steps.on("create", Step::Fails);
    assert_eq!(hand.run(), 0);
    assert_eq!(*locked(&rig.events), ["CreateFailed(Error(\"on purpose\"))"; 2]);
    assert_eq!(rig.counts(), (0, 0, 0));
}

/// Otherwise, each cancelled borrower would leave one more.
#[test]
fn orphaned_creations_are_bounded() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_idle(2));
    for _ in 0..5 {
        drop(rig.waits());
    }
    assert_eq!((rig.steps.begun(), rig.steps.held(), rig.counts()), (5, 2, (0, 0, 2)));
    assert_eq!(hand.run(), 2);
}

/// The runtime drops its tasks, or takes no more.
#[test]
fn an_orphaned_creation_ends_with_the_runtime() {
    for polled in [false, true] {
        let (rig, hand) = held_on_a_runtime(|b| b);
        drop(rig.waits());
        if polled {
            hand.run();
        }
        hand.shut_down();
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
        drop(rig.waits());
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
    }
}

/// Creations whose borrowers were served by what came back do not give way.
#[test]
fn creations_whose_borrowers_were_served_stay() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(3));
    rig.steps.go_on("create");
    let mut lent = rig.lend();
    rig.steps.on("create", Step::Held);
    for mut creates in [rig.waits(), rig.waits()] {
        drop(lent);
        lent = creates.poll().expect("what came back").expect("it is lent");
    }
    let waits = rig.waits();
    assert_eq!((hand.run(), rig.steps.held(), waits.wakes()), (2, 2, 0));
    drop((waits, lent));
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.counts()), (0, (0, 3, 3)));
}

/// A borrower that finds no room makes the youngest orphaned creation give way, but not the last one.
#[test]
fn orphaned_creations_give_way() {
    for polled in [false, true] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
        let (one, two) = (rig.waits(), rig.waits());
        drop((one, two));
        if polled {
            hand.run();
        }
        let mut first = rig.waits();
        assert_eq!(hand.run(), 1);
        assert_eq!((first.wakes(), rig.steps.held(), rig.counts()), (1, 1, (1, 0, 2)));
        assert!(first.poll().is_none());
        let mut second = rig.waits();
        assert_eq!((hand.run(), second.wakes()), (1, 0), "the last one stays");
        rig.steps.release_first("create");
        hand.run();
        assert_eq!(number(&mut first), Some(1), "the oldest borrower is served");
        rig.steps.go_on("create");
        hand.run();
        assert!(number(&mut second).is_some());
    }
}

/// The last creation that was given up, and one whose borrower was served, give way once they are overdue: to a
/// borrower that waits, and to one that comes later.
#[test]
fn overdue_creations_give_way() {
    for waits_before in [true, false] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
        drop(rig.waits());
        hand.run();
        let early = waits_before.then(|| rig.waits());
        assert_eq!((hand.run(), rig.steps.held()), (1, 1), "the last one stays");
        rig.steps.hangs();
        hand.overdue();
        let mut waits = early.unwrap_or_else(|| rig.waits());
        assert_eq!((hand.run(), waits.wakes()), (0, 1));
        assert_eq!((number(&mut waits), rig.counts()), (Some(2), (0, 1, 1)));
    }
    for waits_before in [true, false] {
        let (rig, hand) = held_on_a_runtime(|b| b.max_total(3));
        rig.steps.go_on("create");
        let mut lent = rig.lend();
        rig.steps.on("create", Step::Held);
        for mut creates in [rig.waits(), rig.waits()] {
            drop(lent);
            lent = creates.poll().expect("what came back").expect("it is lent");
        }
        let early = waits_before.then(|| rig.waits());
        assert_eq!((hand.run(), rig.steps.held()), (2, 2), "they stay");
        rig.steps.hangs();
        hand.overdue();
        let mut waits = early.unwrap_or_else(|| rig.waits());
        hand.run();
        assert_eq!(number(&mut waits), Some(4));
        drop(lent);
    }
}

/// A creation that may take any time is overdue after a tenth of the default limit.
#[test]
fn a_creation_without_a_time_limit_gives_way_after_three_seconds() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(1).create_timeout(None));
    drop(rig.waits());
    let mut waits = rig.waits();
    hand.0.pass(2 * SECOND);
    assert_eq!((rig.steps.held(), waits.wakes()), (1, 0), "it may be slow only");
    rig.steps.hangs();
    hand.0.pass(2 * SECOND);
    assert_eq!((rig.steps.held(), waits.wakes()), (0, 1));
    assert_eq!((number(&mut waits), rig.counts()), (Some(2), (0, 1, 1)));
}

/// Before those that may be slow only: the one that was left last is younger.
#[test]
fn an_overdue_creation_gives_way_first() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(3));
    drop(rig.waits());
    hand.run();
    hand.overdue();
    drop((rig.waits(), rig.waits()));
    rig.steps.hangs();
    let mut waits = rig.waits();
    assert_eq!((hand.run(), number(&mut waits)), (2, Some(4)));
    // An overdue creation that ends is welcome.
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(1));
    drop(rig.waits());
    hand.run();
    hand.overdue();
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.counts()), (0, (0, 1, 1)));
    // A close does not wait for it.
    let (rig, hand) = held_on_a_runtime(|b| b);
    drop(rig.waits());
    hand.run();
    hand.overdue();
    rig.pool.close();
    assert_eq!((hand.run(), rig.counts()), (0, (0, 0, 0)));
}

/// A close does not wait for it, and it gives way like a creation whose borrower was served.
#[test]
fn a_refill_that_hangs_is_dropped() {
    let (rig, hand) = held_on_a_runtime(|b| b.min_idle(1).max_total(1));
    hand.run();
    assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)));
    let mut waits = rig.waits();
    hand.run();
    assert_eq!(rig.steps.held(), 1, "it is not overdue");
    rig.steps.hangs();
    hand.overdue();
    assert_eq!((number(&mut waits), rig.counts()), (Some(2), (0, 1, 1)));
    for runtime in [true, false] {
        let (rig, hand) = match runtime {
            true => held_on_a_runtime(|b| b.min_idle(1)),
            false => (held(|b| b.min_idle(1)), Hand::default()),
        };
        let mut pass = rig.pass();
        assert!(pass.poll().is_none());
        rig.pool.close();
        assert_eq!((pass.wakes(), rig.counts()), (1, (0, 0, 1)));
        hand.run();
        assert!(pass.poll().is_some(), "it ends");
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
    }
}

/// Its creation goes on, and is still a refill: it gives way when it is overdue, and a close drops it.
#[test]
fn a_refill_of_a_cancelled_call_goes_on() {
    let begin = || {
        let (rig, hand) = held_on_a_runtime(|b| b.min_idle(1).max_total(1));
        let mut pass = rig.pass();
        assert!(pass.poll().is_none());
        (rig, hand, pass)
    };
    for closes in [true, false] {
        let (rig, hand, pass) = begin();
        drop(pass);
        if !closes {
            hand.run();
        }
        assert_eq!((rig.steps.held(), rig.counts()), (1, (0, 0, 1)), "it goes on");
        match closes {
            true => rig.pool.close(),
            false => rig.steps.go_on("create"),
        }
        hand.run();
        let idle = usize::from(!closes);
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, idle, idle)));
    }
    // Cancelled once it has given way.
    let (rig, hand, mut pass) = begin();
    rig.steps.hangs();
    hand.overdue();
    assert!(pass.poll().is_none());
    let mut waits = rig.waits();
    assert_eq!((rig.steps.held(), waits.wakes()), (1, 0));
    drop(pass);
    assert_eq!((number(&mut waits), rig.counts()), (Some(2), (0, 1, 1)));
}

/// Both borrowers give up while a third one waits. It came before there was a creation that could give way.
#[test]
fn two_hanging_creations_make_way_for_a_third_borrower() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    let (first, second) = (rig.waits(), rig.waits());
    let mut third = rig.waits();
    drop(first);
    assert_eq!((hand.run(), rig.steps.held(), third.wakes()), (1, 2, 0), "the last one stays");
    drop(second);
    hand.run();
    assert_eq!((rig.steps.held(), third.wakes()), (1, 1));
    rig.steps.go_on("create");
    assert_eq!(number(&mut third), Some(3));
}

/// The same for a borrower of another key.
#[test]
fn two_hanging_creations_make_way_for_another_key() {
    let (steps, hand) = (Steps::default(), Hand::default());
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(2);
    let pool = pool.build_on(hand.clone()).expect("valid");
    steps.on("create", Step::Held);
    let begin = |key| begin_borrow(&pool, key);
    let (first, second, mut third) = (begin("a"), begin("a"), begin("b"));
    drop((first, second));
    hand.run();
    assert_eq!((steps.held(), third.wakes()), (1, 1));
    steps.go_on("create");
    assert!(third.poll().expect("it was woken").is_ok());
}

/// A close drops each creation that goes on, of each key.
#[test]
fn all_orphaned_creations_end_with_the_pool() {
    let (steps, hand) = (Steps::default(), Hand::default());
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_active(3).max_idle(3);
    let pool = pool.build_on(hand.clone()).expect("valid");
    steps.on("create", Step::Held);
    for key in ["a", "a", "b", "a", "b"] {
        let theirs = pool.clone();
        let mut left = Task::new(async move { theirs.borrow_async(&key).await.map(drop) });
        assert!(left.poll().is_none());
    }
    assert_eq!((hand.run(), steps.held(), pool.num_total()), (5, 5, 5));
    let mut end = Task::new({
        let pool = pool.clone();
        async move { pool.wait_closed_async().await }
    });
    assert!(end.poll().is_none());
    pool.close();
    hand.run();
    assert_eq!((steps.held(), pool.num_total(), end.poll()), (0, 0, Some(())));
    assert_eq!((hand.0.run(), hand.0.timers()), (0, 0));
}

/// The limit of one key: only creations of this key can give way.
#[test]
fn an_orphaned_creation_gives_way_to_its_key() {
    let (steps, hand) = (Steps::default(), Hand::default());
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total_per_key(2);
    let pool = pool.build_on(hand.clone()).expect("valid");
    steps.on("create", Step::Held);
    let begin = |key: &'static str| {
        let pool = pool.clone();
        let mut task =
            Task::new(async move { pool.borrow_async(&key).await.map(Borrowed::into_owned) });
        assert!(task.poll().is_none());
        task
    };
    drop((begin("other"), begin("full"), begin("full")));
    let waits = begin("full");
    assert_eq!((hand.run(), waits.wakes()), (2, 1));
    assert_eq!((pool.num_active_of(&"full"), pool.num_total()), (1, 3));
}

/// At both limits, too: the creation of another key, which is overdue for longer, would make no room for this one.
#[test]
fn at_both_limits_a_creation_gives_way_to_its_key() {
    let (steps, hand) = (Steps::default(), Hand::default());
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(2).max_total_per_key(1);
    let pool = pool.build_on(hand.clone()).expect("valid");
    steps.on("create", Step::Held);
    drop(begin_borrow(&pool, "other"));
    drop(begin_borrow(&pool, "full"));
    hand.run();
    steps.hangs();
    hand.overdue();
    let mut waits = begin_borrow(&pool, "full");
    hand.run();
    assert_eq!((steps.held(), waits.wakes()), (1, 1));
    assert!(waits.poll().expect("there is room").is_ok());
    assert_eq!((steps.held(), pool.num_total()), (1, 2));
}

/// The limit of all keys: the creation of one key gives way to the oldest waiter of another.
#[test]
fn an_overdue_creation_gives_way_to_another_key() {
    let (steps, hand) = (Steps::default(), Hand::default());
    let pool = KeyedResourcePool::builder(Async(steps.clone())).max_total(1);
    let pool = pool.build_on(hand.clone()).expect("valid");
    steps.on("create", Step::Held);
    let begin = |key| begin_borrow(&pool, key);
    let (left, mut waits) = (begin("a"), begin("b"));
    drop(left);
    hand.run();
    steps.hangs();
    hand.overdue();
    assert_eq!((waits.wakes(), waits.poll().is_some()), (1, true));
}

/// A poll of another one that is overdue changes nothing.
#[test]
fn one_overdue_creation_gives_way_to_one_waiter() {
    let (rig, hand) = held_on_a_runtime(|b| b.max_total(2));
    drop((rig.waits(), rig.waits()));
    hand.run();
    hand.overdue();
    rig.steps.hangs();
    let mut waits = rig.waits();
    // The younger one is polled first.
    hand.0.reverse();
    assert_eq!((hand.run(), rig.steps.held()), (1, 1));
    assert_eq!(number(&mut waits), Some(3));
}

/// A close does not wait for it.
#[test]
fn an_orphaned_creation_ends_with_the_pool() {
    for polled in [false, true] {
        let (rig, hand) = held_on_a_runtime(|b| b);
        drop(rig.waits());
        if polled {
            hand.run();
        }
        rig.pool.close();
        assert_eq!(rig.counts(), (0, 0, 1));
        assert_eq!(hand.run(), 0);
        assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
    }
}

/// It finishes in the very poll in which it should give way.
#[test]
fn an_orphaned_creation_that_finishes_too_late_is_destroyed() {
    let (rig, hand) = held_on_a_runtime(|b| b.test_on_create(true));
    rig.steps.on("validate", Step::Held);
    drop(rig.waits());
    rig.steps.go_on("create");
    assert_eq!((hand.run(), rig.steps.alive()), (1, 1));
    rig.pool.close();
    assert_eq!(hand.run(), 0);
    assert_eq!((rig.steps.alive(), rig.counts()), (0, (0, 0, 0)));
}

/// It counts for the minimum while it goes on.
#[test]
fn an_orphaned_creation_refills_the_idle_list() {
    let (rig, hand) = held_on_a_runtime(|b| b.min_idle(1));
    drop(rig.waits());
    rig.steps.go_on("create");
    while hand.run() > 1 && rig.pool.num_idle() == 0 {}
    assert_eq!(rig.pool.num_idle(), 1);
}

/// Its resource would be destroyed at once.
#[test]
fn a_creation_from_before_a_clear_does_not_go_on() {
    let (rig, hand) = held_on_a_runtime(|b| b);
    let borrower = rig.waits();
    rig.pool.clear_all();
    drop(borrower);
    hand.run();
    assert_eq!((rig.steps.held(), rig.counts()), (0, (0, 0, 0)));
}
