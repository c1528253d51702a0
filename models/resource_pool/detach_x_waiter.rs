//! A borrower keeps what it was lent for good, while another waits for the place.
//!
//! Guards `State::give_back_place`, which settles (`State::left`): the thing is the borrower's, and its
//! place is free at once. Without that, the waiter sleeps for ever. Asserted: it is lent a second thing,
//! and the first is never destroyed by the pool.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_detach_x_waiter() {
    explore_small("resource_detach_x_waiter", &["came late", "waited"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one(&pool));
        let waits = rig.pool.num_waiting() == 1;
        let kept = Borrowed::detach(lent);
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "came late" });
        rig.factory.forget(&kept);
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [2]);
    });
}
