//! A borrower detaches its resource while another waits for the place.
//!
//! Guards the touch of the key in `State::give_back_place`: the place of a detached resource is free at once. Otherwise
//! the waiter sleeps for ever.
//!
//! Asserted: the waiter gets a second resource, and the pool never destroys the first.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_detach_x_waiter() {
    explore_small(Model("resource_detach_x_waiter", 10), &["came late", "waited"], |outcomes| {
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
