//! Failures that were seen in pools of today, each by the way it comes about.

use crate::common::{Background, pool};
use crate::shared::{Door, SECOND};
use cabrank::resource_pool::{BorrowError, Borrowed};

/// Two that come back meet two that wait: each gets one.
#[test]
fn no_wake_up_is_lost_when_two_returns_meet_two_arrivals() {
    for _ in 0..200 {
        let rig = pool(|b| b.max_active(2));
        let returning = rig.lend_all::<2>().map(|lent| Background::start(move || drop(lent)));
        let arriving: [_; 2] = std::array::from_fn(|_| {
            let pool = rig.pool.clone();
            Background::start(move || pool.borrow().map(Borrowed::into_owned))
        });
        returning.into_iter().for_each(Background::end);
        for arrived in arriving {
            drop(arrived.end().expect("one for each"));
        }
        assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
    }
}

#[test]
fn no_slot_is_lost_after_a_panic_in_create() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    for _ in 0..3 {
        rig.script.panics("create");
        assert!(matches!(rig.pool.try_borrow(), Err(BorrowError::Create(_))));
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 0), 0));
    }
    rig.script.is_well("create");
    drop(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
}

/// A waiter for whom a place became free because a creation failed.
#[test]
fn a_panic_in_create_gives_its_place_to_who_waits() {
    let rig = pool(|b| b.max_active(1));
    let door = Door::default();
    let theirs = door.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        panic!("on purpose");
    });
    let pool = rig.pool.clone();
    let first = Background::start(move || pool.borrow().map(drop));
    door.await_arrivals(1);
    let waits = rig.queue();
    rig.script.is_well("create");
    door.open();
    assert!(matches!(first.end(), Err(BorrowError::Create(_))));
    drop(waits.end().expect("the place is free"));
}

/// Nobody is lent what has lived for too long, not even at the very end of its time.
#[test]
fn none_is_lent_past_its_lifetime() {
    let rig = pool(|b| b.max_active(1).max_lifetime(10 * SECOND));
    drop(rig.lend());
    rig.clock.advance(10 * SECOND);
    assert_eq!(rig.lend().number, 2);
    // On return, and by hand-over.
    let late = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(10 * SECOND);
    drop(late);
    assert_eq!(waits.end().expect("a new one").number, 3);
}
