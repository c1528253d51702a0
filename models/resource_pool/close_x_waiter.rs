//! The pool is closed while a borrower waits, and while the resource that it waits for comes back.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// Guards `State::close_key`, which fails all waiters. Otherwise the waiter sleeps for ever: here the resource
/// comes back only after the waiter has failed.
///
/// Asserted: the borrower fails with `Closed`, whether it arrives before the close or after it.
#[test]
fn resource_close_x_waiter() {
    let expected = ["came late", "waited"];
    explore(Model("resource_close_x_waiter", 10), &expected, |outcomes| {
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

/// Guards the check of `closed` in `State::must_leave`. Otherwise the returned resource stays idle, and the close
/// never ends. Guards too the check of `closed` in `WaitForTurn::take`. Otherwise a waiter picks up a grant after
/// the close.
///
/// Asserted: the waiter gets the resource before the close, or fails with `Closed`. The resource is destroyed once.
#[test]
fn resource_close_x_return() {
    let expected = ["closed", "served"];
    explore(Model("resource_close_x_return", 277), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let closing = spawn(move || pool.close());
        drop(lent);
        let closed = rig.pool.is_closed();
        outcomes.note(match rig.reentry().block_on(waiter) {
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

/// Guards that `State::close` closes all keys in one section. Otherwise the waiters of other keys sleep for ever,
/// or get a resource that comes back after the close.
///
/// Asserted: the waiter is served before the close, or fails with `Closed`.
#[test]
fn resource_close_x_two_keys() {
    let expected = ["closed first", "served", "closed while it waited"];
    explore(Model("resource_close_x_two_keys", 3_877), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let mut given_up = Box::pin(rig.pool.borrow_async(&Name("b")));
        let mut waiter = pin!(rig.pool.borrow_async(&Name("c")));
        assert!(rig.reentry().poll_once(given_up.as_mut()).is_pending());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let closing = spawn(move || pool.close());
        let closed = rig.pool.is_closed();
        drop(lent);
        drop(given_up);
        outcomes.note(match rig.reentry().block_on(waiter) {
            Ok(_) if closed => panic!("served by a closed pool"),
            Ok(_) => "served",
            Err(BorrowError::Closed) if closed => "closed first",
            Err(BorrowError::Closed) => "closed while it waited",
            Err(error) => panic!("{error}"),
        });
        closing.join().expect("no panic");
        rig.end();
    });
}
