//! A borrower destroys what makes room for it, while somebody comes for that very key, of which there may be one.
//!
//! Guards `State::condemn`: in the total the place of the idle thing is the newcomer's at once, and of its own key
//! it is one until it has been destroyed. Without that, another of its key is made beside it; and without the
//! section after the destruction, who waits for its key waits for ever. Asserted: there is never more than one
//! of it, nor more than two in all; its borrower is lent the idle thing, or waits until that has been destroyed,
//! and is served then, in the place of the other that is idle.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use std::pin::pin;
use std::task::Poll;

#[test]
fn resource_victim_x_waiter() {
    let expected = ["came after its end", "the idle one", "waited for its end"];
    explore_small("resource_victim_x_waiter", &expected, |outcomes| {
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
        let lent = lent.expect("a thing");
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
