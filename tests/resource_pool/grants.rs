//! Grants that become stale before their waiter picks them up (PROP-RP-FRESH, PROP-RP-CLEAR-ALL).

use crate::common::{Lent, Outcome, Pool, Rig, Script, pool};
use crate::shared::SECOND;
use crate::steps::{Step, rig};
use cabrank::resource_pool::{self, BorrowError, Borrowed, Failure};
use std::time::Duration;

type Builder = resource_pool::Builder<Script, Pool>;
type Configure = fn(Builder) -> Builder;
type Happens = fn(&Rig<Pool>);

/// How a granted resource may become stale, and options for that.
const BEFALLS: [(Configure, Happens); 4] = [
    (|b| b, |rig| rig.pool.clear_all()),
    (|b| b.max_lifetime(10 * SECOND), |rig| rig.clock.advance(10 * SECOND)),
    (|b| b.max_idle_time(10 * SECOND), |rig| rig.clock.advance(10 * SECOND)),
    (
        |b| b.max_lifetime(10 * SECOND),
        |rig| {
            rig.clock.advance(10 * SECOND);
            rig.pool.maintain();
        },
    ),
];

/// The waiter destroys the stale grant and creates another in its place: the limit holds throughout.
#[test]
fn a_stale_grant_is_not_lent() {
    for (configure, befalls) in BEFALLS {
        let rig = pool(|b| configure(b.max_active(1).max_total(1)));
        let lent = rig.lend();
        let waits = rig.task();
        let mut behind = rig.task();
        drop(lent);
        befalls(&rig);
        rig.script.calls();
        let lent = waits.finish().expect("another");
        assert_eq!((lent.number, rig.counts(), rig.pool.num_total()), (2, (1, 0), 1));
        assert_eq!(rig.script.calls(), "destroy 1 create activate 2");
        assert!(behind.poll().is_none(), "it kept its turn");
        drop(lent);
        assert_eq!(behind.finish().expect("the returned one").number, 2);
        assert_eq!((rig.script.alive(), rig.script.most_alive()), (1, 1));
    }
}

/// The waiter takes an idle resource before it creates one.
#[test]
fn an_idle_resource_comes_before_a_creation() {
    for (configure, befalls) in BEFALLS {
        let rig = pool(|b| configure(b.max_active(1)));
        let lent = rig.lend();
        let waits = rig.task();
        drop(lent);
        befalls(&rig);
        rig.pool.add().expect("there is room");
        rig.script.calls();
        let lent = waits.finish().expect("an idle one");
        assert_eq!((lent.number, rig.counts(), rig.pool.num_total()), (2, (1, 0), 1));
        assert_eq!(rig.script.calls(), "destroy 1 activate 2");
    }
}

/// A waiter that is dropped does not pass a stale grant on: the next one creates another.
#[test]
fn a_stale_grant_is_not_passed_on() {
    for (configure, befalls) in BEFALLS {
        let rig = pool(|b| configure(b.max_active(1).max_total(1)));
        let lent = rig.lend();
        let [waits, next] = [rig.task(), rig.task()];
        drop(lent);
        befalls(&rig);
        rig.script.calls();
        drop(waits);
        assert_eq!(rig.script.calls(), "destroy 1");
        assert_eq!(next.finish().expect("a new one").number, 2);
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
    }
}

/// A place was granted before the clear: the resource created there after it stays.
#[test]
fn a_resource_created_after_a_clear_of_all_stays() {
    let rig = pool(|b| b.max_active(1).max_lifetime(10 * SECOND));
    let lent = rig.lend();
    let waits = rig.task();
    Borrowed::invalidate(lent);
    rig.clock.advance(9 * SECOND);
    rig.pool.clear_all();
    drop(waits.finish().expect("a new one"));
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 2));
    assert_eq!(rig.due(), Some(10 * SECOND), "its lifetime begins with it");
    // Its lifetime begins with its creation.
    let lent = rig.lend();
    let waits = rig.task();
    Borrowed::invalidate(lent);
    rig.clock.advance(3600 * SECOND);
    drop(waits.finish().expect("a new one"));
    assert_eq!((rig.counts(), rig.due()), ((0, 1), Some(10 * SECOND)));
}

/// A lifetime begins when the creation begins: not when the place was granted, and not before the
/// victim's destruction.
#[test]
fn a_lifetime_begins_with_the_creation() {
    type Case = (Configure, fn(&Rig<Pool>) -> Lent);
    let cases: [Case; 3] = [
        // It picks up its place late.
        (
            |b| b,
            |rig| {
                let lent = rig.lend();
                let waits = rig.task();
                Borrowed::invalidate(lent);
                rig.clock.advance(9 * SECOND);
                waits.finish().expect("a new one")
            },
        ),
        // It creates one in the place of an expired idle resource.
        (
            |b| b.max_idle_time(SECOND),
            |rig| {
                drop(rig.lend());
                rig.clock.advance(SECOND);
                rig.lend()
            },
        ),
        // It creates one instead of a stale grant.
        (
            |b| b,
            |rig| {
                let lent = rig.lend();
                let waits = rig.task();
                drop(lent);
                rig.pool.clear_all();
                waits.finish().expect("a new one")
            },
        ),
    ];
    for (configure, gets) in cases {
        // A destruction takes longer than a lifetime.
        let rig = pool(|b| configure(b.max_active(1).max_total(1).max_lifetime(5 * SECOND)));
        let (clock, maintains) = (rig.clock.clone(), rig.pool.downgrade());
        rig.script.on("destroy", move |_| {
            clock.advance(9 * SECOND);
            maintains.upgrade().expect("it is there").maintain();
            Outcome::Well
        });
        let lent = gets(&rig);
        let snapshot = rig.pool.snapshot();
        let of_it = &snapshot.keys[0].resources[0];
        assert_eq!((of_it.age, of_it.since), (Some(Duration::ZERO), Some(Duration::ZERO)));
        assert_eq!(lent.number, 2);
        drop(lent);
        assert_eq!((rig.counts(), rig.lend().number), ((0, 1), 2));
        rig.clock.advance(5 * SECOND);
        rig.script.is_well("destroy");
        assert_eq!((rig.due(), rig.counts()), (None, (0, 0)), "it ends as late");
    }
}

/// The creation in its stead fails: the borrower gets the error, and the place becomes free.
#[test]
fn the_failure_of_a_replacement_goes_to_its_borrower() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    let lent = rig.lend();
    let [waits, next] = [rig.task(), rig.task()];
    drop(lent);
    rig.pool.clear_all();
    rig.script.fails("create");
    let failed = waits.finish().unwrap_err();
    assert_eq!(failed, BorrowError::Create(Failure::Error("on purpose".to_owned())));
    rig.script.is_well("create");
    assert_eq!(next.finish().expect("its place").number, 2);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

/// An unfinished creation is dropped if all is cleared before its new borrower picks it up.
#[test]
fn a_stale_unfinished_creation_is_dropped() {
    let rig = rig(|b| b.max_active(1));
    rig.steps.on("create", Step::Held);
    let begins = rig.waits();
    let mut waits = rig.waits();
    drop(begins);
    assert_eq!((rig.steps.begun(), rig.counts()), (1, (1, 0, 1)));
    rig.pool.clear_all();
    rig.steps.go_on("create");
    assert_eq!(waits.poll().expect("at once").expect("a new one").number, 2);
    assert_eq!((rig.steps.begun(), rig.counts(), rig.steps.alive()), (2, (0, 1, 1), 1));
}

/// A waiter that was woken to retry is dropped before its next poll: the one behind it is woken instead (INV-RP-BARGING).
#[test]
fn a_woken_waiter_that_is_dropped_passes_its_retry_on() {
    let rig = pool(|b| b.max_total(1).fair(false));
    // A second round shows that the first left nothing behind.
    for round in 1..=2 {
        let lent = rig.lend();
        let (first, mut second) = (rig.task(), rig.task());
        drop(lent);
        assert_eq!((first.wakes(), second.wakes()), (1, 0), "round {round}");
        drop(first);
        assert_eq!((rig.counts(), second.wakes()), ((0, 1), 1), "round {round}");
        drop(second.poll().expect("its turn").expect("one"));
    }
}
