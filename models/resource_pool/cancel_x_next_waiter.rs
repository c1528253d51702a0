//! A future that waits is dropped while it is served, with another behind it.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// It is handed a thing. Guards `State::return_grant`: who was handed something and never took it passes
/// it on. Without that, the thing counts as lent for ever, and the one behind sleeps. Asserted: the one
/// behind is lent it, whether the first had been served or was still waiting.
#[test]
fn resource_cancel_x_next_waiter() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small("resource_cancel_x_next_waiter", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut first = Box::pin(rig.pool.borrow_async());
        let mut behind = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(first.as_mut()).is_pending());
        assert!(rig.door().poll_once(behind.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let served = rig.pool.num_waiting() == 1;
        drop(first);
        assert_eq!(rig.door().block_on(behind).expect("a thing").number, 1);
        returning.join().expect("no panic");
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}

/// It is handed a place, for a thing that is still to be made. Guards the other half of `return_grant`:
/// the place is given back. Without that, the total stays full for ever.
#[test]
fn resource_cancel_x_next_creation() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small("resource_cancel_x_next_creation", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let lent = rig.lend();
        let mut first = Box::pin(rig.pool.borrow_async());
        let mut behind = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(first.as_mut()).is_pending());
        assert!(rig.door().poll_once(behind.as_mut()).is_pending());
        let leaving = spawn(move || Borrowed::invalidate(lent));
        let served = rig.pool.num_waiting() == 1;
        drop(first);
        assert_eq!(rig.door().block_on(behind).expect("a thing").number, 2);
        leaving.join().expect("no panic");
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
        assert_eq!((rig.factory.made(), rig.factory.most()), (2, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// In a pool that lets newcomers barge, it is told to try again. Guards the end of `State::give_up`: a
/// retry that will not be made is passed on. Without that, the thing lies idle beside the one behind, which
/// sleeps for ever (INV-RP-BARGING).
#[test]
fn resource_cancel_x_retry() {
    let expected = ["dropped waiting", "dropped woken"];
    explore_small("resource_cancel_x_retry", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false)).reentrant();
        let lent = rig.lend();
        let mut first = Box::pin(rig.pool.borrow_async());
        let mut behind = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(first.as_mut()).is_pending());
        assert!(rig.door().poll_once(behind.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let woken = rig.pool.num_waiting() == 1;
        drop(first);
        assert_eq!(rig.door().block_on(behind).expect("a thing").number, 1);
        returning.join().expect("no panic");
        outcomes.note(if woken { "dropped woken" } else { "dropped waiting" });
        assert_eq!(rig.end(), [1]);
    });
}
