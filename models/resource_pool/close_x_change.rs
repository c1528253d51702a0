//! The pool is closed while a limit is raised, or while `clear_all` runs.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;

/// A raised limit frees a place for a waiter. Guards `State::update_line` in `State::close_key`. Otherwise the key
/// stands in line with an empty queue, and the raised limit serves its empty queue (INV-RP-LINE).
///
/// Asserted: the waiter fails with `Closed`, even if the raised limit served it first: it picks its grant up after
/// the close.
#[test]
fn resource_close_x_raise() {
    let expected = ["closed", "served"];
    explore_small(Model("resource_close_x_raise", 16), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(2));
        // The waiter's key has a resource. Otherwise the close forgets the key, and takes it out of the line.
        let lent = (rig.lend(Name("a")), rig.lend(Name("b")));
        let b = Name("b");
        let mut waiter = pin!(rig.pool.borrow_async(&b));
        assert!(poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let raising = spawn(move || pool.set_max_total(3).expect("a valid limit"));
        let granted = rig.pool.num_waiting() == 0;
        rig.pool.close();
        match block_on(waiter) {
            Ok(_) => panic!("served by a closed pool"),
            Err(error) => assert_eq!(error, BorrowError::Closed),
        }
        outcomes.note(if granted { "served" } else { "closed" });
        raising.join().expect("no panic");
        assert_eq!((rig.factory.made(), rig.counts()), (2, (2, 0, 2)));
        drop(lent);
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// Guards `State::clear_key` in `State::close_key`. Otherwise idle resources stay in the closed pool
/// (INV-RP-CLOSED), unless the clear ran first.
///
/// Asserted: the clear or the close destroys the idle resource. The lent one is destroyed when it comes back.
#[test]
fn resource_close_x_clear_all() {
    let expected = ["by the clear", "by the close"];
    explore_small(Model("resource_close_x_clear_all", 44), &expected, |outcomes| {
        let rig = unkeyed(|b| b);
        let (lent, idle) = (rig.lend(), rig.lend());
        drop(idle);
        let me = crate::kernel::sync::me();
        let theirs = outcomes.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(2) {
                let mine = crate::kernel::sync::me() == me;
                theirs.note(if mine { "by the close" } else { "by the clear" });
            }
        });
        let pool = rig.pool.clone();
        let clearing = spawn(move || pool.clear_all());
        rig.pool.close();
        drop(lent);
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!(rig.factory.gone().len(), 2);
        clearing.join().expect("no panic");
        assert_eq!(rig.end(), [1, 2]);
    });
}
