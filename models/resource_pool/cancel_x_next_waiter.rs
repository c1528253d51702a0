//! A waiting future is dropped while it is served, and another borrower waits behind it.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// Drops the first of two waiters while the loan ends. Asserts that the second is lent resource `number`, and returns
/// whether the first had its outcome by then.
fn race(rig: &Rig<Unkeyed>, ends: fn(Lent), number: u32) -> bool {
    let lent = rig.lend();
    let mut first = Box::pin(rig.pool.borrow_async());
    let mut behind = pin!(rig.pool.borrow_async());
    assert!(rig.reentry().poll_once(first.as_mut()).is_pending());
    assert!(rig.reentry().poll_once(behind.as_mut()).is_pending());
    let ending = spawn(move || ends(lent));
    let resolved = rig.pool.num_waiting() == 1;
    drop(first);
    assert_eq!(rig.reentry().block_on(behind).expect("a resource").number, number);
    ending.join().expect("no panic");
    resolved
}

/// The first waiter is granted a resource. Guards `State::return_grant`: a grant that is not picked up is passed
/// on. Otherwise the resource counts as lent for ever, and the second waiter sleeps for ever.
///
/// Asserted: the second waiter gets the resource, whether the first was dropped before its grant or after it.
#[test]
fn resource_cancel_x_next_waiter() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small(Model("resource_cancel_x_next_waiter", 3_289), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let served = race(&rig, drop, 1);
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}

/// The first waiter is granted an empty place. Guards `State::give_back_place` in `State::return_grant`. Otherwise
/// the total stays full for ever.
///
/// Asserted: the second waiter gets a new resource, and at most one exists at a time.
#[test]
fn resource_cancel_x_next_creation() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small(Model("resource_cancel_x_next_creation", 8_721), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let served = race(&rig, Borrowed::invalidate, 2);
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
        assert_eq!((rig.factory.made(), rig.factory.most()), (2, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// In an unfair pool, the first waiter is woken to retry. Guards the last part of `State::give_up`: it passes on a
/// retry that does not take place. Otherwise the resource stays idle while the second waiter sleeps for ever
/// (INV-RP-BARGING).
///
/// Asserted: the second waiter gets the resource.
#[test]
fn resource_cancel_x_retry() {
    let expected = ["dropped waiting", "dropped woken"];
    explore_small(Model("resource_cancel_x_retry", 3_289), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false).max_lost_races(1)).reentrant();
        let woken = race(&rig, drop, 1);
        outcomes.note(if woken { "dropped woken" } else { "dropped waiting" });
        assert_eq!(rig.end(), [1]);
    });
}
