//! What is due at a time: what leaves and what is tested, and until when it sleeps.

use crate::common::{Background, Got, Outcome, Pool, Script, keyed, pool};
use crate::shared::task::Task;
use crate::shared::{Door, SECOND};
use cabrank::resource_pool::{
    BorrowError, Borrowed, Limit, ResourcePoolBuilder, ResourceState, WhenExhausted,
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Of two keys, the one that is due first is what the maintenance sleeps until, though the other's has
/// been idle for longer.
#[test]
fn the_maintenance_wakes_for_the_first_that_is_due_of_all_keys() {
    let rig = keyed(|b| b.min_idle(1).soft_max_idle_time(5 * SECOND).max_idle_time(100 * SECOND));
    drop(rig.lend("a"));
    rig.clock.advance(SECOND);
    drop((rig.lend("b"), rig.lend("b")));
    assert_eq!(rig.due(), Some(5 * SECOND));
}

/// It would never sleep, else.
#[test]
fn what_is_being_tested_is_not_due() {
    let rig = pool(|b| b.max_idle_time(5 * SECOND));
    drop(rig.lend());
    rig.pool.retain(|_, _| {
        rig.clock.advance(5 * SECOND);
        assert_eq!(rig.due(), None);
        true
    });
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A key at its own limit cannot be filled up, and is not due though its back-off is over.
#[test]
fn a_key_that_is_full_is_not_due_for_stock() {
    let rig = keyed(|b| b.min_idle(1).max_total_per_key(2));
    let one = rig.lend("a");
    rig.script.fails("create");
    rig.pool.maintain();
    rig.script.is_well("create");
    let two = rig.lend("a");
    rig.clock.advance(HOUR);
    assert_eq!(rig.due(), None);
    two.invalidate();
    rig.pool.maintain();
    assert_eq!(rig.counts(), (1, 1));
    drop(one);
}

/// A victim that gets its place again ends when its time is over, not when a younger one's is.
#[test]
fn a_victim_that_was_spared_ends_in_time() {
    let rig = keyed(|b| b.max_active(Limit::None).max_total(17).max_lifetime(20 * SECOND));
    let a = rig.lend("a");
    rig.clock.advance(10 * SECOND);
    // Of the same class of lifetimes as the first, but younger.
    let others: Vec<_> = (0..16).map(|_| rig.lend("c")).collect();
    let task = rig.task("b");
    drop(a);
    assert_eq!(rig.pool.snapshot().keys[0].resources[0].state, ResourceState::Condemned);
    drop(task);
    assert_eq!(rig.pool.num_idle_of(&"a"), 1);
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle_of(&"a"), 0);
    drop(others);
}

/// By age, the oldest first, and exactly when it is due; after that, nothing is due.
/// PROP-RP-EVICTED.
#[test]
fn each_is_due_when_its_own_time_has_come() {
    let rig = pool(|b| b.max_idle_time(10 * SECOND));
    let [one, two] = rig.lend_all();
    drop(one);
    rig.clock.advance(4 * SECOND);
    drop(two);
    assert_eq!(rig.due(), Some(6 * SECOND));
    rig.clock.advance(6 * SECOND);
    rig.script.calls();
    assert_eq!(rig.due(), Some(4 * SECOND));
    assert_eq!((rig.script.calls().as_str(), rig.counts()), ("destroy 1", (0, 1)));
    rig.clock.advance(4 * SECOND);
    assert_eq!((rig.due(), rig.counts()), (None, (0, 0)));
}

/// Whoever lets as much time pass as it says finds it due: a time between two nanoseconds was cut short.
#[test]
fn what_is_due_is_due_when_it_says() {
    let rig = pool(|b| b.max_idle_time(SECOND));
    drop(rig.lend());
    rig.clock.advance(SECOND * 3 / 10);
    let wait = rig.due().expect("one is idle");
    assert_eq!(wait.as_millis(), 700);
    rig.clock.advance(wait);
    assert_eq!((rig.due(), rig.counts()), (None, (0, 0)));
}

/// What is due at the end of the clock's time never is.
#[test]
fn nothing_is_due_at_the_end_of_time() {
    let rig = pool(|b| b.max_idle_time(SECOND));
    rig.clock.advance(Duration::MAX);
    drop(rig.lend());
    assert_eq!((rig.due(), rig.counts()), (None, (0, 1)));
}

/// The hard time counts for all, the soft one for those that no minimum protects.
#[test]
fn the_hard_time_minds_no_minimum() {
    let rig = pool(|b| b.min_idle(2).soft_max_idle_time(10 * SECOND).max_idle_time(20 * SECOND));
    drop(rig.lend_all::<3>());
    assert_eq!(rig.due(), Some(10 * SECOND));
    rig.clock.advance(10 * SECOND);
    assert_eq!((rig.due(), rig.counts()), (Some(10 * SECOND), (0, 2)));
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    // Destroyed, and made anew: the minimum is filled up after an eviction.
    assert_eq!((rig.counts(), rig.script.made(), rig.script.alive()), ((0, 2), 5, 2));
}

/// Nothing is lent, and what fills the pool must not be lent any more: its place is its borrower's, who destroys
/// it first (PROP-RP-VICTIM). It was told once that the pool is exhausted.
#[test]
fn what_is_over_makes_room_for_its_borrower() {
    type Builder = ResourcePoolBuilder<Script, Pool>;
    let times: [fn(Builder) -> Builder; 2] =
        [|b| b.max_idle_time(SECOND), |b| b.max_lifetime(SECOND)];
    type Way = fn(&Pool) -> Got;
    let ways: [Way; 3] = [
        |pool| pool.borrow().map(Borrowed::into_owned),
        |pool| pool.try_borrow().map(Borrowed::into_owned),
        |pool| {
            let pool = pool.clone();
            let lent = async move { pool.borrow_async().await.map(Borrowed::into_owned) };
            Task::new(lent).poll().expect("at once")
        },
    ];
    for time in times {
        for number in [1, 2] {
            let rig = pool(|b| {
                time(b.max_active(number).max_total(number).when_exhausted(WhenExhausted::Fail))
            });
            for way in ways {
                rig.pool.prefill(number - rig.pool.num_idle()).expect("room");
                rig.clock.advance(2 * SECOND);
                let made = rig.script.made();
                assert_eq!(way(&rig.pool).expect("the last one's place").number, made + 1);
                assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 1), 1));
                assert_eq!(rig.script.most_alive(), number);
            }
        }
    }
}

/// The same for who waits; and if it does not come for it, what was to make room leaves.
#[test]
fn what_is_over_makes_room_for_who_waits() {
    for comes in [true, false] {
        let rig = pool(|b| b.max_active(1).max_total(2).max_idle(2).max_idle_time(SECOND));
        let lent = rig.lend();
        rig.pool.add().expect("room");
        rig.clock.advance(2 * SECOND);
        let mut waits = rig.task();
        rig.script.calls();
        lent.invalidate();
        assert_eq!((rig.script.calls().as_str(), rig.counts()), ("destroy 1", (1, 0)));
        if comes {
            assert_eq!(waits.poll().expect("its place").expect("one").number, 3);
            assert_eq!(rig.script.calls(), "destroy 2 create activate 3 passivate 3");
        } else {
            drop(waits);
            assert_eq!((rig.script.calls().as_str(), rig.pool.num_total()), ("destroy 2", 0));
        }
    }
}

/// What is lent is not evicted, and a borrower is not lent what is due and still there (PROP-RP-FRESH).
#[test]
fn nothing_that_is_lent_is_evicted_and_nothing_due_is_lent() {
    let rig = pool(|b| b.max_idle_time(10 * SECOND));
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.clock.advance(10 * SECOND);
    let new = rig.lend();
    assert_eq!((new.number, rig.script.alive()), (3, 2));
    rig.clock.advance(HOUR);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (2, 0));
    drop(lent);
    assert_eq!(rig.due(), Some(10 * SECOND), "it counts from the return");
}

/// Lifetimes count from when one began to be made, for what is lent and what is idle.
#[test]
fn a_lifetime_ends_in_stock_or_on_return() {
    let rig = pool(|b| b.max_lifetime(10 * SECOND));
    let [lent, idle] = rig.lend_all();
    rig.clock.advance(6 * SECOND);
    drop(idle);
    assert_eq!(rig.due(), Some(4 * SECOND));
    rig.clock.advance(4 * SECOND);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// What was made at once does not end at once: sixteen ends, spread over the jitter.
#[test]
fn lifetimes_are_spread() {
    let rig = pool(|b| b.max_active(32).max_lifetime(100 * SECOND).lifetime_jitter(16 * SECOND));
    drop(rig.lend_all::<32>());
    rig.clock.advance(84 * SECOND);
    let mut left = Vec::new();
    for _ in 0..17 {
        rig.pool.maintain();
        left.push(rig.pool.num_idle());
        rig.clock.advance(SECOND);
    }
    let expected: Vec<usize> = (0..17).map(|second| 32 - 2 * second.min(16)).collect();
    assert_eq!(left, expected);
}

/// Runs that far apart, and so many in each.
#[test]
fn runs_are_apart_and_evict_so_many() {
    let rig = pool(|b| b.max_idle_time(SECOND).eviction_interval(10 * SECOND).evictions_per_run(2));
    drop(rig.lend_all::<5>());
    let mut idle = Vec::new();
    for _ in 0..8 {
        rig.clock.advance(5 * SECOND);
        rig.pool.maintain();
        idle.push(rig.pool.num_idle());
    }
    assert_eq!(idle, [5, 3, 3, 1, 1, 0, 0, 0]);
}

/// Each in its turn, two in each run; those that fail leave, and stock is filled up.
#[test]
fn idle_ones_are_tested_in_turns() {
    let rig = pool(|b| {
        b.min_idle(3).test_while_idle(true).eviction_interval(10 * SECOND).evictions_per_run(2)
    });
    drop(rig.lend_all::<3>());
    rig.script.calls();
    let run = || {
        rig.clock.advance(10 * SECOND);
        rig.pool.maintain();
        rig.script.calls()
    };
    assert_eq!(run(), "validate 1 validate 2");
    assert_eq!(run(), "validate 3 validate 1");
    rig.script.on("validate", |number| match number {
        2 => Outcome::Fails,
        _ => Outcome::Well,
    });
    assert_eq!(run(), "validate 2 destroy 2 validate 3 create passivate 4");
    assert_eq!(run(), "validate 1 validate 3");
    assert_eq!(rig.events(), ["m: Invalid"]);
}

/// A test does not make a resource look younger, and nobody is lent one that is being tested.
/// PROP-RP-UNDER-TEST.
#[test]
fn what_is_tested_keeps_its_place_and_is_not_lent() {
    let rig =
        pool(|b| b.max_active(2).max_total(1).test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    let theirs = rig.pool.clone();
    rig.script.on("validate", move |_| {
        assert_eq!(theirs.try_borrow().unwrap_err(), BorrowError::WouldBlock);
        let picture = theirs.snapshot();
        assert_eq!((picture.idle, picture.keys[0].idle()), (1, 1));
        assert_eq!(picture.keys[0].resources[0].state, ResourceState::Tested);
        theirs.clear();
        Outcome::Well
    });
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    // It was to be cleared, and was as soon as it could be.
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// Who waits while the only one is tested gets it as soon as the test is over.
#[test]
fn a_waiter_gets_what_was_tested() {
    let rig = pool(|b| b.max_total(1).test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    let door = Door::default();
    let theirs = door.clone();
    rig.script.on("validate", move |_| {
        theirs.pass();
        Outcome::Well
    });
    rig.clock.advance(SECOND);
    let pool = rig.pool.clone();
    let maintains = Background::start(move || pool.maintain());
    door.await_arrivals(1);
    let waits = rig.queue();
    assert!(waits.is_pending());
    door.open();
    assert_eq!(waits.end().expect("it passed").number, 1);
    maintains.end();
}
