//! The pool is closed while a borrower is on its way: to what it was handed, or to what it was called for, or in the
//! middle of making room. The close breaks off nothing that has begun; what has not, does not begin.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;

/// It destroys what makes room for it. Guards the end of `State::destroyed` for what made room, and the look at
/// `closed` where its own comes back. Asserted: what made room is destroyed once, by the one or by the other; its
/// borrower is lent one in that place, which is destroyed when it comes back, or told of the close; and who waits for
/// the end is told when the last of them has gone.
#[test]
fn resource_close_x_making_room() {
    let expected = ["closed", "made in its place"];
    explore_small("resource_close_x_making_room", &expected, |outcomes| {
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

/// It was handed a place, and what is to make room for it, and has not come for that. Guards the look at what must
/// leave in `State::spare_victim`. Without it, a closed pool takes back into stock what need not make room any more
/// (INV-RP-CLOSED). Asserted: nothing is made for it any more, and what was to make room is destroyed.
#[test]
fn resource_close_x_victim() {
    let expected = ["handed first", "told in line"];
    explore_small("resource_close_x_victim", &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1));
        let lent = rig.lend(Name("a"));
        let b = Name("b");
        let mut waiter = pin!(rig.pool.borrow_async(&b));
        assert!(poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let handed = rig.pool.num_waiting() == 0;
        rig.pool.close();
        match block_on(waiter) {
            Ok(_) => panic!("served by a closed pool"),
            Err(error) => assert_eq!(error, BorrowError::Closed),
        }
        outcomes.note(if handed { "handed first" } else { "told in line" });
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!((rig.factory.made(), rig.factory.gone()), (1, vec![1]));
        returning.join().expect("no panic");
        assert_eq!(rig.pool.num_keys(), 0);
        rig.end();
    });
}

/// Newcomers may barge: it was called to try again. Guards the look at `closed` in `State::retry`. Without it, it is
/// served by a closed pool, and makes what that was to destroy. Asserted: it is told of the close, in line or
/// when it tries.
#[test]
fn resource_close_x_retry() {
    let expected = ["called first", "told in line"];
    explore_small("resource_close_x_retry", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false));
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
        outcomes.note(if called { "called first" } else { "told in line" });
        assert!(rig.pool.wait_closed(SECOND));
        assert_eq!((rig.factory.made(), rig.factory.gone()), (1, vec![1]));
        returning.join().expect("no panic");
        rig.end();
    });
}
