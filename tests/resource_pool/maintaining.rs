//! Maintenance: what it evicts and tests, when, and for how long it sleeps.

use crate::common::{Background, Got, Outcome, Pool, Script, keyed, locked, pool};
use crate::shared::task::Task;
use crate::shared::{Gate, SECOND};
use cabrank::resource_pool::{BorrowError, Borrowed, ResourceState, WhenExhausted};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The maintenance sleeps until the first resource of any key is due, though another has been idle
/// for longer.
#[test]
fn the_maintenance_wakes_for_the_first_that_is_due_of_all_keys() {
    let rig = keyed(|b| b.min_idle(1).soft_max_idle_time(5 * SECOND).max_idle_time(100 * SECOND));
    drop(rig.lend("a"));
    rig.clock.advance(SECOND);
    drop((rig.lend("b"), rig.lend("b")));
    assert_eq!(rig.due(), Some(5 * SECOND));
}

/// Otherwise it would never sleep.
#[test]
fn a_resource_under_test_is_not_due() {
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

/// A key at its own limit cannot be refilled: it is not due, though its back-off has ended.
#[test]
fn a_full_key_is_not_due_for_a_refill() {
    let rig = keyed(|b| b.min_idle(1).max_total_per_key(2));
    let one = rig.lend("a");
    rig.script.fails("create");
    rig.pool.maintain();
    rig.script.is_well("create");
    let two = rig.lend("a");
    rig.clock.advance(HOUR);
    assert_eq!(rig.due(), None);
    Borrowed::invalidate(two);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (1, 1));
    drop(one);
}

/// A spared victim expires at its own time, not at a younger one's.
#[test]
fn a_victim_that_was_spared_ends_in_time() {
    let rig = keyed(|b| b.max_active(None).max_total(17).max_lifetime(20 * SECOND));
    let a = rig.lend("a");
    rig.clock.advance(10 * SECOND);
    // In the same class of lifetimes as the first, but younger.
    let others: Vec<_> = (0..16).map(|_| rig.lend("c")).collect();
    let task = rig.task("b");
    drop(a);
    assert_eq!(rig.pool.snapshot().keys[0].resources[0].state, ResourceState::MarkedForEviction);
    drop(task);
    assert_eq!(rig.pool.num_idle_of(&"a"), 1);
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle_of(&"a"), 0);
    drop(others);
}

/// Each expires by age, the oldest first, exactly when it is due; then no pass is due.
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

/// After the returned time the resource is due: an earlier version cut fractions of a nanosecond.
#[test]
fn a_resource_is_due_at_the_returned_time() {
    let rig = pool(|b| b.max_idle_time(SECOND));
    drop(rig.lend());
    rig.clock.advance(SECOND * 3 / 10);
    let wait = rig.due().expect("one is idle");
    assert_eq!(wait.as_millis(), 700);
    rig.clock.advance(wait);
    assert_eq!((rig.due(), rig.counts()), (None, (0, 0)));
}

/// A due time beyond the end of the clock's time never comes.
#[test]
fn no_resource_is_due_at_the_end_of_time() {
    let rig = pool(|b| b.max_idle_time(SECOND));
    rig.clock.advance(Duration::MAX);
    drop(rig.lend());
    assert_eq!((rig.due(), rig.counts()), (None, (0, 1)));
}

/// The hard limit applies to all, the soft one only above the minimum.
#[test]
fn the_hard_limit_ignores_the_minimum() {
    let rig = pool(|b| b.min_idle(2).soft_max_idle_time(10 * SECOND).max_idle_time(20 * SECOND));
    drop(rig.lend_all::<3>());
    assert_eq!(rig.due(), Some(10 * SECOND));
    rig.clock.advance(10 * SECOND);
    assert_eq!((rig.due(), rig.counts()), (Some(10 * SECOND), (0, 2)));
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    // The eviction is followed by a refill of the minimum.
    assert_eq!((rig.counts(), rig.script.made(), rig.script.alive()), ((0, 2), 5, 2));
}

/// Expired idle resources fill the pool: a borrower destroys one and takes its place
/// (PROP-RP-VICTIM). An earlier version returned "exhausted".
#[test]
fn an_expired_resource_makes_room_for_a_borrower() {
    type Builder = cabrank::resource_pool::Builder<Script, Pool>;
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

/// The same for a waiter. If it is dropped, the victim still leaves.
#[test]
fn an_expired_resource_makes_room_for_a_waiter() {
    for comes in [true, false] {
        let rig = pool(|b| b.max_active(1).max_total(2).max_idle(2).max_idle_time(SECOND));
        let lent = rig.lend();
        rig.pool.add().expect("room");
        rig.clock.advance(2 * SECOND);
        let mut waits = rig.task();
        rig.script.calls();
        Borrowed::invalidate(lent);
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

/// The maintenance evicts no borrowed resource, and the pool lends none that is due (PROP-RP-FRESH).
#[test]
fn borrowed_resources_are_not_evicted_and_due_ones_not_lent() {
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

/// A lifetime begins with the creation, for borrowed and idle resources.
#[test]
fn a_lifetime_ends_while_idle_or_on_return() {
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

/// Resources created together do not expire together: jitter spreads sixteen ends.
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

/// Returns the tenths of seconds after which the resources of a pool of this size end.
fn ends(size: usize) -> Vec<u64> {
    let rig = pool(|b| b.max_total(size).max_lifetime(160 * SECOND).lifetime_jitter(80 * SECOND));
    rig.pool.prefill(size).expect("there is room");
    let mut ends = Vec::new();
    for tenth in 0..=1600 {
        rig.pool.maintain();
        ends.resize(size - rig.pool.num_total(), tenth);
        rig.clock.advance(SECOND / 10);
    }
    ends
}

#[test]
fn a_small_pool_uses_its_jitter() {
    for _ in 0..20 {
        let ends = ends(4);
        let spread = ends[3] - ends[0];
        assert!((590..=610).contains(&spread), "three quarters of 80 s: {ends:?}");
        assert!(ends[0] > 800 && ends[3] <= 1600, "{ends:?}");
    }
}

#[test]
fn many_processes_with_a_small_pool_do_not_reconnect_together() {
    let fleet: BTreeSet<u64> = (0..30).flat_map(|_| ends(2)).collect();
    // Of 800 tenths. Twenty would be less likely than 10⁻¹⁵.
    assert!(fleet.len() > 20, "{fleet:?}");
}

/// The interval between runs, and the number evicted in each.
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

/// The limit is for idle times: lifetimes always end exactly.
#[test]
fn the_end_of_a_life_does_not_count_as_an_eviction() {
    let rig = pool(|b| {
        let b = b.max_lifetime(10 * SECOND).max_idle_time(4 * SECOND);
        b.eviction_interval(10 * SECOND).evictions_per_run(1)
    });
    let old = rig.lend_all::<2>();
    rig.clock.advance(5 * SECOND);
    let young = rig.lend();
    rig.clock.advance(SECOND);
    drop(old);
    drop(young);
    rig.clock.advance(4 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle(), 0, "two lives have ended, and one idle time");
}

/// The interval is for idle times: a loan and a life end at their own time between two runs.
#[test]
fn loans_and_lives_end_between_the_runs() {
    let rig = pool(|b| {
        let b = b.eviction_interval(10 * SECOND).max_idle_time(HOUR);
        b.abandoned_after(12 * SECOND).max_lifetime(13 * SECOND)
    });
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.clock.advance(10 * SECOND);
    assert_eq!((rig.due(), rig.events().len(), rig.counts()), (Some(2 * SECOND), 0, (1, 1)));
    rig.clock.advance(2 * SECOND);
    assert_eq!((rig.due(), rig.events().len(), rig.counts()), (Some(SECOND), 1, (1, 1)));
    rig.clock.advance(SECOND);
    assert_eq!((rig.due(), rig.events().len(), rig.counts()), (None, 0, (1, 0)));
    drop(lent);
}

/// Each run tests two idle resources, in turn. Invalid ones leave, and the minimum is refilled.
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

/// A test does not make a resource look younger, and the pool does not lend it meanwhile.
/// PROP-RP-UNDER-TEST.
#[test]
fn a_resource_under_test_keeps_its_place_and_is_not_lent() {
    let rig = pool(|b| b.max_total(1).test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    let (theirs, seen) = (rig.pool.clone(), Arc::new(Mutex::new(None)));
    let sees = seen.clone();
    // A panic of the test would be one that the pool contains, so this looks only.
    rig.script.on("validate", move |_| {
        let refused = theirs.try_borrow().map(drop);
        let picture = theirs.snapshot();
        let [key] = &picture.keys[..] else { return Outcome::Fails };
        let states: Vec<_> = key.resources.iter().map(|resource| resource.state).collect();
        *locked(&sees) = Some((refused, picture.idle, key.idle(), states));
        theirs.clear();
        Outcome::Well
    });
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    let expected = (Err(BorrowError::WouldBlock), 1, 1, vec![ResourceState::Tested]);
    assert_eq!(*locked(&seen), Some(expected));
    // It was marked to be cleared, and left after its test.
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A waiter gets the only resource as soon as its test has ended.
#[test]
fn a_waiter_gets_the_tested_resource() {
    let rig = pool(|b| b.max_total(1).test_while_idle(true).eviction_interval(SECOND));
    drop(rig.lend());
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.script.on("validate", move |_| {
        theirs.pass();
        Outcome::Well
    });
    rig.clock.advance(SECOND);
    let pool = rig.pool.clone();
    let maintains = Background::start(move || pool.maintain());
    gate.await_arrivals(1);
    let waits = rig.queue();
    assert!(waits.is_pending());
    gate.open();
    assert_eq!(waits.end().expect("it passed").number, 1);
    maintains.end();
}

/// Each process begins at another place of the jitter, and not at another place of one step.
#[test]
fn the_first_connections_of_many_processes_end_all_over_the_jitter() {
    let firsts: Vec<u64> = (0..30).map(|_| ends(1)[0]).collect();
    let (first, last) = (firsts.iter().min().expect("some"), firsts.iter().max().expect("some"));
    // Of 800 tenths. A quarter would be less likely than 10⁻¹³; one step is 50.
    assert!(last - first > 200, "{firsts:?}");
}
