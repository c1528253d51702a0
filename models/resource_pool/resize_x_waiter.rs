//! A limit is changed while somebody waits, or while something comes back.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// Guards `State::fit`, which settles: who can be served by the higher limit is. Without that, the
/// waiter sleeps until something comes back, which here comes after it. Asserted: it is lent a second thing.
#[test]
fn resource_raise_x_waiter() {
    explore_small("resource_raise_x_waiter", &["raised first", "waited"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one(&pool));
        let waits = rig.pool.num_waiting() == 1;
        rig.pool.set_max_active(2).expect("a valid limit");
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(lent);
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// The same with keys, which stand in line only while their own limits leave room. Guards the place in
/// line that `State::fit` gives: without it, the key is passed over for ever.
#[test]
fn resource_raise_x_keyed_waiter() {
    let expected = ["raised first", "waited"];
    explore_small("resource_raise_x_keyed_waiter", &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one_of(&pool, Name("a")));
        let waits = rig.pool.num_waiting() == 1;
        rig.pool.set_max_active(2).expect("a valid limit");
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(lent);
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// `max_total` is lowered while what is then too much comes back. Guards `State::has_too_many` where things
/// come back, and `State::fit`, which evicts. Without the one, what comes back after the change stays;
/// without the other, what came back before it does. Asserted: it leaves, whichever comes first, and what
/// comes back after it stays.
#[test]
fn resource_lower_x_return() {
    explore_small("resource_lower_x_return", &["lowered first", "returned first"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(2)).reentrant();
        let (one, two) = (rig.lend(), rig.lend());
        let returning = spawn(move || drop(two));
        let returned = rig.pool.num_idle() == 1;
        rig.pool.set_max_total(1).expect("a valid limit");
        returning.join().expect("no panic");
        outcomes.note(if returned { "returned first" } else { "lowered first" });
        assert_eq!(rig.factory.gone(), [2]);
        drop(one);
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// `max_active`, and with it `max_idle`, is lowered while things come back for a waiter. Guards
/// `State::fit`, which evicts what stock must not hold any more, and the look at `max_idle` in `State::stock`.
/// Without them, stock exceeds its limit (INV-RP-MAX-IDLE). Asserted: the waiter is lent one of the two, and
/// in the end one is left.
#[test]
fn resource_lower_x_return_x_waiter() {
    let expected = ["lent 1", "lent 2"];
    explore_small("resource_lower_x_return_x_waiter", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(2)).reentrant();
        let (one, two) = (rig.lend(), rig.lend());
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || {
            drop(one);
            drop(two);
        });
        rig.pool.set_max_active(1).expect("a valid limit");
        let number = rig.door().block_on(waiter).expect("a thing").number;
        returning.join().expect("no panic");
        outcomes.note(format!("lent {number}"));
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}
