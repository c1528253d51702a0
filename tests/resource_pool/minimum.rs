//! The minimum: which keys are refilled, until when, and how failures back off.

use crate::common::{Background, Lent, Outcome, Script, keyed, locked, pool};
use crate::shared::{SECOND, end_the_run_when_the_library_panics};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    AddError, Borrowed, Event, ResourcePool, WeakKeyedResourcePool, WeakResourcePool,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A minimum that was lowered to zero is not refilled.
#[test]
fn a_minimum_of_zero_is_not_refilled() {
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

/// A returned loan restores the minimum, so no creation is needed.
#[test]
fn a_restored_minimum_is_not_refilled() {
    let rig = pool(|b| b.min_idle(2));
    rig.pool.prefill(2).expect("room");
    drop(rig.lend_all::<2>());
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
}

/// Eviction for another key leaves the victim's key below its minimum.
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

/// The pool forgets a key whose every creation failed, and does not refill it.
#[test]
fn a_key_without_a_creation_has_no_minimum() {
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

/// A key has a minimum only after its first creation has succeeded.
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

/// The key's last resource was cleared, dropped, evicted or replaced: the pool forgets the key and
/// its minimum until the next borrow.
#[test]
fn a_forgotten_key_has_no_minimum() {
    type End = fn(&crate::common::Rig<crate::common::Keyed>);
    let ends: [End; 4] = [
        |rig| rig.pool.clear_key(&"a"),
        |rig| Borrowed::invalidate(rig.lend("a")),
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

/// A resource that is being destroyed does not keep its key's minimum, so the maintenance creates no other.
#[test]
fn a_resource_that_leaves_keeps_no_minimum() {
    let rig = keyed(|b| b.min_idle(1));
    drop(rig.lend("a"));
    let theirs = rig.pool.clone();
    rig.script.on("destroy", move |_| {
        theirs.maintain();
        Outcome::Well
    });
    rig.pool.clear_key(&"a");
    assert_eq!((rig.script.made(), rig.pool.num_total(), rig.pool.num_keys()), (1, 0, 0));
    rig.script.is_well("destroy");
}

/// One loan of a failing key keeps the attempts going; its end ends them.
#[test]
fn a_failing_key_is_tried_while_a_loan_of_it_is_left() {
    let rig = keyed(|b| b.min_idle(1));
    let lent = rig.lend("a");
    rig.script.fails("create");
    for pause in [500, 1000] {
        let due = rig.due().expect("it is tried again");
        assert_eq!(due.as_millis(), pause);
        rig.clock.advance(due);
    }
    Borrowed::invalidate(lent);
    assert_eq!((rig.due(), rig.pool.num_keys()), (None, 0));
}

/// A failure belongs to its key, even if the key was forgotten meanwhile and another has its index.
#[test]
fn a_key_is_not_left_alone_for_the_failure_of_a_forgotten_one() {
    type Shared = Arc<(OnceLock<WeakKeyedResourcePool<&'static str, Script>>, Mutex<Option<Lent>>)>;
    let shared = Shared::default();
    let theirs = shared.clone();
    let rig = keyed(|b| {
        b.min_idle(1).listener(move |key, event| {
            assert_eq!((*key, matches!(event, Event::CreateFailed(_))), ("a", true));
            let pool = theirs.0.get().and_then(|pool| pool.upgrade()).expect("it is open");
            assert_eq!(pool.num_keys(), 0);
            *locked(&theirs.1) = Some(Borrowed::into_owned(pool.borrow(&"b").expect("a new one")));
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

/// A resource that reaches the idle list after the close is destroyed, and `add` returns the error.
#[test]
fn an_addition_during_the_close_fails() {
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

/// A resource that has expired on arrival counts as a failure.
#[test]
fn a_resource_that_expires_on_arrival_backs_off() {
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

/// The back-off after a failure is half a second; it doubles up to a minute. A success ends it.
#[test]
fn a_refill_backs_off() {
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
    // Borrowers ignore the back-off.
    rig.script.is_well("create");
    drop(rig.lend());
    rig.pool.clear();
    rig.clock.advance(HOUR);
    assert_eq!((rig.due(), rig.counts()), (None, (0, 1)));
    rig.script.fails("create");
    rig.pool.clear();
    assert_eq!(rig.due().expect("again").as_millis(), 500);
}

/// The back-off has begun by the time the listener is notified or a failed resource is destroyed:
/// maintenance then leaves the key alone.
#[test]
fn a_refill_has_backed_off_when_the_listener_is_notified() {
    end_the_run_when_the_library_panics();
    for (call, calls) in [
        ("create", "create"),
        ("validate", "create validate 1 destroy 1"),
        ("passivate", "create validate 1 passivate 1 destroy 1"),
    ] {
        for panics in [false, true] {
            let (script, clock) = (Script::default(), ManualClock::new());
            let reported = Arc::new(AtomicUsize::new(0));
            let pool = Arc::new(OnceLock::<WeakResourcePool<Script>>::new());
            let maintain = {
                let (pool, script, reported) = (pool.clone(), script.clone(), reported.clone());
                move || {
                    reported.fetch_add(1, SeqCst);
                    // A retry would be visible here.
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
            assert!(reported.load(SeqCst) > 0);
            clock.advance(SECOND / 2);
            built.maintain();
            assert_eq!((built.num_idle(), built.num_total()), (3, 3));
        }
    }
}

/// The limits bound it (PROP-RP-REFILLED).
#[test]
fn the_minimum_stays_within_the_limits() {
    let rig = pool(|b| b.min_idle(2).max_total(3));
    let two = rig.lend_all::<2>();
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.pool.num_total()), ((2, 1), 3));
    drop(two);
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.made()), ((0, 3), 3));
}
