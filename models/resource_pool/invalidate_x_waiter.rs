//! A borrower gives up what it was lent, while another waits.

use crate::models::resource_pool::rig::*;

/// The total is full. Guards `State::destroyed`, which settles: the place is free when the thing has been
/// destroyed, and not before. Without that, who waits for the place sleeps for ever; with the place given
/// away earlier, there would be two things where one may be. Asserted: the waiter is lent a second thing,
/// there is never more than one, and both who came in time and who came late are served.
#[test]
fn resource_invalidate_x_waiter() {
    let expected = ["came late", "waited"];
    explore_small("resource_invalidate_x_waiter", &expected, |outcomes| {
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

/// Nothing limits the total, and the destruction takes its time: it ends only when the waiter has been
/// served. Guards `State::invalidate`, which settles before anything is destroyed. Without that, a slow
/// destruction keeps the waiter waiting, and here each waits for the other.
#[test]
fn resource_slow_destruction_x_waiter() {
    let expected = ["came late", "waited"];
    explore("resource_slow_destruction_x_waiter", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let served = Bell::new();
        let theirs = served.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Destroy(1) {
                theirs.wait(1);
            }
        });
        let pool = rig.pool.clone();
        let waiter = spawn(move || {
            let lent = pool.borrow().expect("a thing");
            served.ring();
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
