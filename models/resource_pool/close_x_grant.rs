//! The pool is closed after a borrower is granted a place, is woken to retry, or begins an eviction. A borrower
//! that has picked its grant up goes on; every other fails with `Closed`.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;

/// The borrower destroys a victim. Guards the touch of the key by a destruction that has ended, and the check of `closed` where its
/// own resource comes back. Otherwise the caller of `wait_closed` sleeps for ever.
///
/// Asserted: the close or the borrower destroys the victim, once. The borrower gets a resource in its place, or
/// fails with `Closed`. `wait_closed` returns after the last resource is destroyed.
#[test]
fn resource_close_x_evicting_borrow() {
    let expected = ["closed", "made in its place"];
    explore_small(Model("resource_close_x_evicting_borrow", 44), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1));
        drop(rig.lend(Name("a")));
        let pool = rig.pool.clone();
        let borrower = spawn(move || pool.borrow(&Name("b")).map(|lent| lent.number));
        rig.pool.close();
        assert!(rig.pool.wait_closed(SECOND));
        let gone = rig.factory.gone().len();
        assert_eq!((rig.factory.most(), gone), (1, rig.factory.made() as usize));
        match borrower.join().expect("no panic") {
            Ok(number) => {
                assert_eq!(number, 2);
                outcomes.note("made in its place");
            }
            Err(error) => {
                assert_eq!(error, BorrowError::Closed);
                outcomes.note("closed");
            }
        }
        assert_eq!(rig.pool.num_keys(), 0);
        rig.end();
    });
}

/// The waiter is granted a place and a victim, and does not pick them up before the close. Guards
/// `State::must_leave` in `State::spare_victim`. Otherwise a closed pool puts the spared victim back into its idle
/// list (INV-RP-CLOSED).
///
/// Asserted: the waiter's resource is never created, and the victim is destroyed.
#[test]
fn resource_close_x_victim() {
    let expected = ["granted first", "failed in the queue"];
    explore_small(Model("resource_close_x_victim", 52), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1));
        let lent = rig.lend(Name("a"));
        let b = Name("b");
        let mut waiter = pin!(rig.pool.borrow_async(&b));
        assert!(poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let granted = rig.pool.num_waiting() == 0;
        rig.pool.close();
        match block_on(waiter) {
            Ok(_) => panic!("served by a closed pool"),
            Err(error) => assert_eq!(error, BorrowError::Closed),
        }
        outcomes.note(if granted { "granted first" } else { "failed in the queue" });
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!((rig.factory.made(), rig.factory.gone()), (1, vec![1]));
        returning.join().expect("no panic");
        assert_eq!(rig.pool.num_keys(), 0);
        rig.end();
    });
}

/// In an unfair pool, the waiter is woken to retry. Guards the check of `closed` in `State::retry`. Otherwise a
/// closed pool serves the waiter, or lets it create a resource.
///
/// Asserted: the waiter fails with `Closed`, in the queue or when it retries.
#[test]
fn resource_close_x_retry() {
    let expected = ["called first", "failed in the queue"];
    explore_small(Model("resource_close_x_retry", 52), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false).max_lost_races(1));
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let called = rig.pool.num_waiting() == 0;
        rig.pool.close();
        match block_on(waiter) {
            Ok(_) => panic!("served by a closed pool"),
            Err(error) => assert_eq!(error, BorrowError::Closed),
        }
        outcomes.note(if called { "called first" } else { "failed in the queue" });
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!((rig.factory.made(), rig.factory.gone()), (1, vec![1]));
        returning.join().expect("no panic");
        rig.end();
    });
}
