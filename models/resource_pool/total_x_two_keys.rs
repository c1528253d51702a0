//! A place becomes free, with waiters of two keys in line and a newcomer of a third key.
//!
//! Guards the order of the line (`State::update_line`): a place that any key can use goes to the oldest waiter. Without
//! it, the keys are served in another order, and a busy key starves another. Without the settling, no waiter is served.
//! Asserted: the waiters are served in the order of their arrival, in every interleaving of the return with the
//! newcomer. At most one resource exists at any time.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;

#[test]
fn resource_total_x_two_keys() {
    let expected = ["the newcomer came late", "the newcomer waited"];
    explore(Model("resource_total_x_two_keys", 5_985), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let mut first = pin!(rig.pool.borrow_async(&Name("d")));
        let mut second = pin!(rig.pool.borrow_async(&Name("b")));
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(poll_once(second.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let newcomer = spawn(move || use_one_of(&pool, Name("n")));
        let waits = rig.pool.num_waiting() == 3;
        drop(lent);
        let served = block_on(first).expect("a resource");
        assert_eq!((served.of, served.number), (Name("d"), 2));
        drop(served);
        let served = block_on(second).expect("a resource");
        assert_eq!((served.of, served.number), (Name("b"), 3));
        drop(served);
        assert_eq!(newcomer.join().expect("no panic"), 4);
        outcomes.note(if waits { "the newcomer waited" } else { "the newcomer came late" });
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        rig.end();
    });
}
