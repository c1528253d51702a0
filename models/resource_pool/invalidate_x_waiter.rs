//! A borrower invalidates its resource while another borrower waits.

use crate::models::resource_pool::rig::*;

/// The total is exhausted.
///
/// Guards the settling in `State::destroyed`: the place becomes free when the resource has been destroyed. Without
/// that, the waiter for the place sleeps for ever. If the place were free earlier, two resources would exist where
/// one may. Asserted: the second borrower is lent a second resource, whether it waited or came late. At most one
/// exists at any time.
#[test]
fn resource_invalidate_x_waiter() {
    let expected = ["came late", "waited"];
    explore_small(Model("resource_invalidate_x_waiter", 35), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one(&pool));
        let waits = rig.pool.num_waiting() == 1;
        Borrowed::invalidate(lent);
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "came late" });
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// The total is unlimited, and the destruction ends only when the waiter has been served.
///
/// Guards that `State::invalidate` settles before the destruction begins. Without that, a slow destruction keeps the
/// waiter waiting; here each waits for the other.
#[test]
fn resource_slow_destruction_x_waiter() {
    let expected = ["came late", "waited"];
    explore(Model("resource_slow_destruction_x_waiter", 1_530), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let served = Counter::new();
        let theirs = served.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) {
                theirs.wait(1);
            }
        });
        let pool = rig.pool.clone();
        let waiter = spawn(move || {
            let lent = pool.borrow().expect("a resource");
            served.up();
            lent.number
        });
        let waits = rig.pool.num_waiting() == 1;
        Borrowed::invalidate(lent);
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "came late" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}
