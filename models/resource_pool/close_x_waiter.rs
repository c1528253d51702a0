//! The pool is closed while somebody waits, and what it waits for comes back.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// Guards `State::close_key`, which tells all who wait. Without it, a waiter sleeps for ever, for here the
/// thing comes back only after it has been told. Asserted: whoever comes before the close and whoever
/// comes after it is told.
#[test]
fn resource_close_x_waiter() {
    let expected = ["came late", "waited"];
    explore("resource_close_x_waiter", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || pool.borrow().map(|lent| lent.number));
        let waits = rig.pool.num_waiting() == 1;
        rig.pool.close();
        assert_eq!(waiter.join().expect("no panic"), Err(BorrowError::Closed));
        outcomes.note(if waits { "waited" } else { "came late" });
        drop(lent);
        assert_eq!(rig.end(), [1]);
    });
}

/// Guards the look at `closed` in `State::stock`: what comes back to a closed pool leaves. Without it, it
/// stays in stock, and the close never comes to its end. Guards the look at `closed` in `State::turn`, too: without
/// it, who was handed the thing before the close is lent it after. Asserted: the waiter is lent the thing before
/// the close, or told of it; in the end the thing has been destroyed, once.
#[test]
fn resource_close_x_return() {
    let expected = ["closed", "served"];
    explore("resource_close_x_return", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let closing = spawn(move || pool.close());
        drop(lent);
        let closed = rig.pool.is_closed();
        outcomes.note(match rig.door().block_on(waiter) {
            Ok(_) if closed => panic!("served by a closed pool"),
            Ok(_) => "served",
            Err(BorrowError::Closed) => "closed",
            Err(error) => panic!("{error}"),
        });
        closing.join().expect("no panic");
        assert_eq!(rig.factory.gone(), [1]);
        assert_eq!(rig.end(), [1]);
    });
}

/// Guards that `State::close` goes through all keys, in one section: whoever waits is told, for whatever key,
/// and nothing that comes back is lent after it. Without that, who waits for another key sleeps for ever.
/// Asserted: who still waits then is told of the close, and whoever was served was served before.
#[test]
fn resource_close_x_two_keys() {
    let expected = ["closed first", "served", "told of the close"];
    explore("resource_close_x_two_keys", &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let mut given_up = Box::pin(rig.pool.borrow_async(&Name("b")));
        let mut waiter = pin!(rig.pool.borrow_async(&Name("c")));
        assert!(rig.door().poll_once(given_up.as_mut()).is_pending());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let closing = spawn(move || pool.close());
        let closed = rig.pool.is_closed();
        drop(lent);
        drop(given_up);
        outcomes.note(match rig.door().block_on(waiter) {
            Ok(_) if closed => panic!("served by a closed pool"),
            Ok(_) => "served",
            Err(BorrowError::Closed) if closed => "closed first",
            Err(BorrowError::Closed) => "told of the close",
            Err(error) => panic!("{error}"),
        });
        closing.join().expect("no panic");
        rig.end();
    });
}
