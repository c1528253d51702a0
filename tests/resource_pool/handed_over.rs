//! What was handed to a waiter that comes for it later, when it must not be lent any more (PROP-RP-FRESH,
//! PROP-RP-CLEAR-ALL).

use crate::common::{Lent, Outcome, Pool, Rig, Script, pool};
use crate::shared::SECOND;
use crate::steps::{Step, rig};
use cabrank::resource_pool::{BorrowError, Failure, ResourcePoolBuilder};
use std::time::Duration;

type Builder = ResourcePoolBuilder<Script, Pool>;
type Configure = fn(Builder) -> Builder;
type Happens = fn(&Rig<Pool>);

/// What may befall a resource while nobody comes for it, and options for that.
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

/// It is destroyed, and its borrower makes another in its place: never are there more than there may be.
#[test]
fn what_became_too_old_before_its_borrower_came_is_not_lent() {
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
        assert_eq!(behind.finish().expect("what came back").number, 2);
        assert_eq!((rig.script.alive(), rig.script.most_alive()), (1, 1));
    }
}

/// It takes what is in stock by then, before it makes any.
#[test]
fn stock_comes_first_for_who_comes_late() {
    for (configure, befalls) in BEFALLS {
        let rig = pool(|b| configure(b.max_active(1)));
        let lent = rig.lend();
        let waits = rig.task();
        drop(lent);
        befalls(&rig);
        rig.pool.add().expect("there is room");
        rig.script.calls();
        let lent = waits.finish().expect("stock");
        assert_eq!((lent.number, rig.counts(), rig.pool.num_total()), (2, (1, 0), 1));
        assert_eq!(rig.script.calls(), "destroy 1 activate 2");
    }
}

/// Who does not come for it passes it on no more: the next one makes another.
#[test]
fn what_became_too_old_is_not_passed_on() {
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

/// What is made in a place that was handed over before the clear is made after it: it is as good as any.
#[test]
fn what_is_made_after_a_clear_of_all_stays() {
    let rig = pool(|b| b.max_active(1).max_lifetime(10 * SECOND));
    let lent = rig.lend();
    let waits = rig.task();
    lent.invalidate();
    rig.clock.advance(9 * SECOND);
    rig.pool.clear_all();
    drop(waits.finish().expect("a new one"));
    assert_eq!((rig.counts(), rig.script.made()), ((0, 1), 2));
    assert_eq!(rig.due(), Some(10 * SECOND), "its lifetime begins with it");
    // Nor is its lifetime over before it began.
    let lent = rig.lend();
    let waits = rig.task();
    lent.invalidate();
    rig.clock.advance(3600 * SECOND);
    drop(waits.finish().expect("a new one"));
    assert_eq!((rig.counts(), rig.due()), ((0, 1), Some(10 * SECOND)));
}

/// Its life begins when it begins to be made: not when its place was handed over, nor before what has to leave
/// first was destroyed.
#[test]
fn a_life_begins_with_the_making() {
    type Case = (Configure, fn(&Rig<Pool>) -> Lent);
    let cases: [Case; 3] = [
        // It comes late for its place.
        (
            |b| b,
            |rig| {
                let lent = rig.lend();
                let waits = rig.task();
                lent.invalidate();
                rig.clock.advance(9 * SECOND);
                waits.finish().expect("a new one")
            },
        ),
        // It makes one in the place of stock that was idle for too long.
        (
            |b| b.max_idle_time(SECOND),
            |rig| {
                drop(rig.lend());
                rig.clock.advance(SECOND);
                rig.lend()
            },
        ),
        // It makes one instead of what was handed to it.
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
        // A destruction takes longer than a life.
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

/// What it makes instead fails: that is its error, and its place is free.
#[test]
fn the_failure_of_what_is_made_instead_is_its_borrowers() {
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

/// A creation that was left, and handed over, is dropped if all is cleared before its borrower comes.
#[test]
fn what_was_left_and_became_too_old_is_dropped() {
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
