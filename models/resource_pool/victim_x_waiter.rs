//! A newcomer evicts an idle resource, beside a borrower of the victim's key; at most one of that key may exist.
//!
//! Guards `State::mark_for_eviction`: the newcomer gets the victim's place in the total at once, but the victim counts
//! for its own key until it is destroyed. Without that, a second resource of the key is created beside the victim.
//! Guards also the section after the destruction (`State::destroyed`). Without it, a waiter of the key sleeps for ever.
//!
//! Asserted: at most one resource of the key exists, and at most two in all. The key's borrower is lent the idle
//! resource, or waits for its destruction and then takes the place of the other idle resource.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;
use std::task::Poll;

#[test]
fn resource_victim_x_waiter() {
    let expected = ["came after its end", "the idle one", "waited for its end"];
    explore_small(Model("resource_victim_x_waiter", 3_151), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(2).max_total_per_key(1)).reentrant();
        drop(rig.lend(Name("a")));
        drop(rig.lend(Name("b")));
        let pool = rig.pool.clone();
        let newcomer = spawn(move || drop(pool.borrow(&Name("c")).expect("a place")));
        let (pool, a) = (rig.pool.clone(), Name("a"));
        let mut borrow = pin!(pool.borrow_async(&a));
        let came = poll_once(borrow.as_mut());
        newcomer.join().expect("no panic");
        let waits = came.is_pending();
        let lent = match came {
            Poll::Ready(lent) => lent,
            Poll::Pending => block_on(borrow),
        };
        let lent = lent.expect("a resource");
        outcomes.note(match (waits, lent.number) {
            (false, 1) => "the idle one",
            (false, 3 | 4) => "came after its end",
            (true, 4) => "waited for its end",
            other => panic!("{other:?}"),
        });
        drop(lent);
        assert_eq!((rig.factory.most_of(Name("a")), rig.factory.most()), (1, 2));
        rig.end();
    });
}
