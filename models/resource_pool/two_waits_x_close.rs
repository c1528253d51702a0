//! Two callers wait for the same end while the pool is closed.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// Both wait for the end of the pool, and the last resource comes back. Guards that `State::notify_if_finished` wakes
/// each caller of `wait_closed`. If it woke the first one only, the second would sleep for ever.
///
/// Asserted: both return, whether the second one came before the end or after it.
#[test]
fn resource_two_waits_x_close() {
    let expected = ["both waited", "the second came late"];
    explore(Model("resource_two_waits_x_close", 24_715), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut first = pin!(rig.pool.wait_closed_async());
        assert!(rig.reentry().poll_once(first.as_mut()).is_pending());
        let (pool, reentry) = (rig.pool.clone(), rig.reentry().clone());
        let second = spawn(move || {
            let mut end = pin!(pool.wait_closed_async());
            let waits = reentry.poll_once(end.as_mut()).is_pending();
            if waits {
                reentry.block_on(end);
            }
            waits
        });
        rig.pool.close();
        drop(lent);
        rig.reentry().block_on(first);
        let waited = second.join().expect("no panic");
        outcomes.note(if waited { "both waited" } else { "the second came late" });
        assert_eq!(rig.end(), [1]);
    });
}

/// Two borrowers of one key wait. Guards that `State::close_key` fails each waiter of its queue. If it failed the first
/// one only, the second would sleep for ever: the resource comes back to a closed pool.
///
/// Asserted: both fail with `Closed`.
#[test]
fn resource_two_borrowers_x_close() {
    let expected = ["both waited", "the second came late"];
    explore(Model("resource_two_borrowers_x_close", 106), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let mut first = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(first.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let second = spawn(move || pool.borrow().map(|lent| lent.number));
        let both = rig.pool.num_waiting() == 2;
        rig.pool.close();
        let refused = rig.reentry().block_on(first).map(|lent| lent.number);
        assert_eq!(refused, Err(BorrowError::Closed));
        assert_eq!(second.join().expect("no panic"), Err(BorrowError::Closed));
        outcomes.note(if both { "both waited" } else { "the second came late" });
        drop(lent);
        assert_eq!(rig.end(), [1]);
    });
}
