//! What is due at a time: what leaves, what is tested and what is filled up, and until when it sleeps.

use crate::common::{Background, Got, Lent, Outcome, Pool, Script, keyed, locked, pool};
use crate::shared::task::Task;
use crate::shared::{Door, SECOND, end_the_run_when_the_library_panics};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    AddError, BorrowError, Borrowed, Limit, PoolEvent, ResourcePool, ResourcePoolBuilder,
    ResourceState, WeakKeyedResourcePool, WeakResourcePool, WhenExhausted,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A minimum that is no more is not filled up.
#[test]
fn a_minimum_that_was_taken_back_fills_nothing() {
    let rig = pool(|b| b);
    rig.pool.set_min_idle(2).expect("valid");
    rig.pool.set_min_idle(0).expect("valid");
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 0), 0));
    rig.pool.set_min_idle(3).expect("valid");
    rig.pool.set_min_idle(1).expect("valid");
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 1));
}

/// PROP-RP-MIN-IDLE.
#[test]
fn the_reaper_minds_the_minimum() {
    let rig = pool(|b| b.min_idle(2).soft_max_idle_time(10 * SECOND));
    drop(rig.lend_all::<4>());
    rig.clock.advance(HOUR);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 4));
    rig.clock.advance(HOUR);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 4));
}

/// What was lent and came back makes the stock whole: nothing is to be made.
#[test]
fn a_minimum_that_is_met_again_fills_nothing() {
    let rig = pool(|b| b.min_idle(2));
    rig.pool.prefill(2).expect("room");
    drop(rig.lend_all::<2>());
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

/// The key that had to make room is below its minimum afterwards.
#[test]
fn a_minimum_is_filled_up_again_for_the_key_that_made_room() {
    let rig = keyed(|b| b.min_idle(1).max_total(3));
    let [one, two] = [rig.lend("b"), rig.lend("b")];
    drop(one);
    let others = [rig.lend("a"), rig.lend("a")];
    assert_eq!((rig.pool.num_idle_of(&"b"), rig.script.alive()), (0, 3));
    others.into_iter().for_each(Borrowed::invalidate);
    rig.pool.maintain();
    assert_eq!((rig.pool.num_idle_of(&"a"), rig.pool.num_idle_of(&"b")), (0, 1));
    drop(two);
}

/// A key of which nothing could ever be made is not kept, and not tried by itself.
#[test]
fn a_key_of_which_nothing_is_made_has_no_minimum() {
    let rig = keyed(|b| b.min_idle(1));
    rig.script.fails("create");
    for key in ["a", "b", "c"] {
        assert!(rig.pool.borrow(&key).is_err() && rig.pool.add(&key).is_err());
    }
    rig.script.calls();
    for _ in 0..3 {
        rig.clock.advance(HOUR);
        assert_eq!(rig.due(), None);
    }
    assert_eq!((rig.pool.num_keys(), rig.script.calls().as_str()), (0, ""));
}

/// While the first one of a key is being made, nobody knows whether any can be.
#[test]
fn a_key_is_filled_up_from_when_its_first_one_is_lent() {
    let rig = keyed(|b| b.min_idle(1));
    let theirs = rig.pool.clone();
    rig.script.on("activate", move |number| {
        if number == 1 {
            theirs.maintain();
            assert_eq!(theirs.num_total(), 1);
        }
        Outcome::Well
    });
    let lent = rig.lend("a");
    rig.pool.maintain();
    assert_eq!(rig.counts(), (1, 1));
    drop(lent);
}

/// Its last one was cleared, given up, evicted or taken for another key: the key is forgotten, and its
/// minimum with it, until somebody borrows it again.
#[test]
fn a_key_of_which_nothing_is_left_has_no_minimum() {
    type End = fn(&crate::common::Rig<crate::common::Keyed>);
    let ends: [End; 4] = [
        |rig| rig.pool.clear_key(&"a"),
        |rig| rig.lend("a").invalidate(),
        |rig| rig.clock.advance(HOUR),
        |rig| drop([rig.lend("b"), rig.lend("b")].map(Borrowed::detach)),
    ];
    for end in ends {
        let rig = keyed(|b| b.min_idle(1).max_total(2).max_idle_time(60 * SECOND));
        drop(rig.lend("a"));
        end(&rig);
        rig.pool.maintain();
        assert_eq!((rig.counts(), rig.pool.num_keys(), rig.due()), ((0, 0), 0, None));
        let lent = rig.lend("a");
        rig.pool.maintain();
        assert_eq!(rig.counts(), (1, 1));
        drop(lent);
    }
}

/// Of a key whose creations fail, one that is lent keeps the attempts going; with its end they end.
#[test]
fn a_key_that_fails_is_tried_while_something_of_it_is_left() {
    let rig = keyed(|b| b.min_idle(1));
    let lent = rig.lend("a");
    rig.script.fails("create");
    for pause in [500, 1000] {
        let due = rig.due().expect("it is tried again");
        assert_eq!(due.as_millis(), pause);
        rig.clock.advance(due);
    }
    lent.invalidate();
    assert_eq!((rig.due(), rig.pool.num_keys()), (None, 0));
}

/// A failure is its key's, also if that was forgotten when it failed, and another has its number by now.
#[test]
fn a_key_is_not_left_alone_for_the_failure_of_a_forgotten_one() {
    type Shared = Arc<(OnceLock<WeakKeyedResourcePool<&'static str, Script>>, Mutex<Option<Lent>>)>;
    let shared = Shared::default();
    let theirs = shared.clone();
    let rig = keyed(|b| {
        b.min_idle(1).listener(move |key, event| {
            assert_eq!((*key, matches!(event, PoolEvent::CreateFailed(_))), ("a", true));
            let pool = theirs.0.get().and_then(|pool| pool.upgrade()).expect("it is open");
            assert_eq!(pool.num_keys(), 0);
            *locked(&theirs.1) = Some(pool.borrow(&"b").expect("a new one").into_owned());
        })
    });
    shared.0.set(rig.pool.downgrade()).expect("set once");
    *locked(&shared.1) = Some(rig.lend("a"));
    let (theirs, script) = (shared.clone(), rig.script.clone());
    rig.script.on("create", move |_| {
        let lent = locked(&theirs.1).take();
        lent.into_iter().for_each(Borrowed::invalidate);
        script.is_well("create");
        Outcome::Fails
    });
    rig.pool.maintain();
    assert_eq!((rig.pool.num_active_of(&"b"), rig.pool.num_idle_of(&"b")), (1, 1));
    assert_eq!((rig.pool.num_active_of(&"a"), rig.due()), (0, None));
    drop(locked(&shared.1).take());
}

/// What comes into stock too late is destroyed: who adds to a pool that is closed meanwhile is told so.
#[test]
fn what_is_added_while_the_pool_closes_is_not_there() {
    type Late = fn(&crate::common::Rig<crate::common::Pool>);
    let cases: [(Late, Result<(), AddError<String>>); 3] = [
        (|rig| rig.pool.close(), Err(AddError::Closed)),
        (|rig| rig.clock.advance(SECOND), Ok(())),
        (|rig| rig.pool.clear_all(), Ok(())),
    ];
    for (late, expected) in cases {
        let rig = Arc::new(pool(|b| b.max_lifetime(SECOND)));
        let theirs = Arc::downgrade(&rig);
        rig.script.on("create", move |_| {
            late(&theirs.upgrade().expect("it is used"));
            Outcome::Well
        });
        assert_eq!(rig.pool.add(), expected);
        assert_eq!((rig.counts(), rig.script.made(), rig.script.alive()), ((0, 0), 1, 0));
    }
}

/// What is over when it comes into stock is no better than what cannot be made.
#[test]
fn what_is_dead_on_arrival_backs_off() {
    let rig = pool(|b| b.min_idle(1).max_lifetime(SECOND));
    let clock = rig.clock.clone();
    rig.script.on("create", move |_| {
        clock.advance(SECOND);
        Outcome::Well
    });
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let due = rig.due().expect("it is tried again");
        pauses.push(due.as_millis());
        rig.clock.advance(due);
    }
    assert_eq!((pauses, rig.script.made()), (vec![500, 1000, 2000], 3));
    // The same if it fails its test.
    rig.script.on("create", |_| Outcome::Well);
    rig.script.fails("validate");
    let tested = pool(|b| b.min_idle(1).test_on_create(true));
    tested.script.fails("validate");
    assert_eq!(tested.due().expect("again").as_millis(), 500);
}

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

/// Ruling 11: by age, the oldest first, and exactly when it is due; after that, nothing is due.
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

/// Ruling 10: after a failure stock is not filled up for half a second, then for twice as long with each
/// further one, and for a minute at most; then all is as before.
#[test]
fn filling_up_backs_off() {
    let rig = pool(|b| b.min_idle(1));
    rig.script.fails("create");
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let pause = rig.due().expect("it is to be tried again");
        pauses.push(pause.as_millis());
        rig.clock.advance(pause - Duration::from_nanos(1));
        rig.script.calls();
        rig.pool.maintain();
        assert_eq!(rig.script.calls(), "", "not before its time");
        rig.clock.advance(Duration::from_nanos(2));
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
    assert_eq!(rig.events().len(), 9);
    rig.script.panics("create");
    rig.pool.maintain();
    assert_eq!(rig.events(), [r#"m: CreateFailed(Panicked("on purpose"))"#]);
    // A borrower is not concerned.
    rig.script.is_well("create");
    drop(rig.lend());
    rig.pool.clear();
    rig.clock.advance(HOUR);
    assert_eq!((rig.due(), rig.counts()), (None, (0, 1)));
    rig.script.fails("create");
    rig.pool.clear();
    assert_eq!(rig.due().expect("again").as_millis(), 500);
}

/// The same while the listener is told, and what failed is destroyed: whoever maintains the pool then, there or
/// elsewhere, finds that it is left alone.
#[test]
fn filling_up_has_backed_off_when_the_listener_is_told() {
    end_the_run_when_the_library_panics();
    for (call, calls) in [
        ("create", "create"),
        ("validate", "create validate 1 destroy 1"),
        ("passivate", "create validate 1 passivate 1 destroy 1"),
    ] {
        for panics in [false, true] {
            let (script, clock) = (Script::default(), ManualClock::new());
            let told = Arc::new(AtomicUsize::new(0));
            let pool = Arc::new(OnceLock::<WeakResourcePool<Script>>::new());
            let maintain = {
                let (pool, script, told) = (pool.clone(), script.clone(), told.clone());
                move || {
                    told.fetch_add(1, SeqCst);
                    // What is tried again is seen.
                    script.is_well(call);
                    let pool = pool.get().and_then(WeakResourcePool::upgrade).expect("it is open");
                    pool.maintain();
                    Background::start(move || pool.maintain()).end();
                }
            };
            let destroyed = maintain.clone();
            script.on("destroy", move |_| {
                destroyed();
                Outcome::Well
            });
            let builder = ResourcePool::builder(script.clone(), "m").clock(clock.clock());
            let builder = builder.maintenance(false).min_idle(3).test_on_create(true);
            let built = builder.listener(move |_, _| maintain()).build().expect("valid");
            assert!(pool.set(built.downgrade()).is_ok());
            if panics {
                script.panics(call);
            } else {
                script.fails(call);
            }
            built.maintain();
            assert_eq!(script.calls(), calls);
            assert!(told.load(SeqCst) > 0);
            clock.advance(SECOND / 2);
            built.maintain();
            assert_eq!((built.num_idle(), built.num_total()), (3, 3));
        }
    }
}

/// Bounded by what may exist (PROP-RP-REFILLED).
#[test]
fn the_minimum_takes_no_more_than_there_may_be() {
    let rig = pool(|b| b.min_idle(2).max_total(3));
    let two = rig.lend_all::<2>();
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.pool.num_total()), ((2, 1), 3));
    drop(two);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 3), 3));
}
