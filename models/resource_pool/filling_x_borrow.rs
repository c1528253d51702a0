//! A resource is added to the idle list beside a borrower; at most one may exist.
//!
//! Guards three lines:
//! - `State::added` touches the key if the creation succeeded. Without that, a borrower sleeps for ever beside an idle
//!   resource.
//! - It does so if the creation failed. Without that, a borrower sleeps beside a free place.
//! - The place is reserved before the creation. Without that, two resources exist.
//!
//! Asserted: the borrower is lent the added resource, or one that it creates. At most one exists at any time.

use crate::models::resource_pool::rig::*;

fn filling_meets_borrow(model: Model, end: Make) {
    let expected = ["after a wait", "at once"];
    explore_small(model, &expected, move |outcomes| {
        let rig = unkeyed(|b| b.max_total(1)).reentrant();
        rig.factory.next(&[end]);
        let waited = Counter::new();
        let (theirs, weak) = (waited.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Create && weak.upgrade().is_some_and(|p| p.num_waiting() == 1) {
                theirs.up();
            }
        });
        let pool = rig.pool.clone();
        let filling = spawn(move || pool.add().is_ok());
        let lent = rig.pool.borrow().map(|lent| lent.number);
        let added = filling.join().expect("no panic");
        let waits = waited.count() > 0;
        match end {
            Make::Well => assert_eq!((lent, rig.factory.made()), (Ok(1), 1)),
            // The first creation fails, for whichever thread began it.
            _ if added => assert!(lent.is_err() && !waits),
            _ => assert!(lent == Ok(1) || lent.is_err() && !waits),
        }
        outcomes.note(if waits { "after a wait" } else { "at once" });
        assert!(rig.factory.most() <= 1, "more than max_total");
        rig.end();
    });
}

#[test]
fn resource_filling_x_borrow() {
    filling_meets_borrow(Model("resource_filling_x_borrow", 77), Make::Well);
}

#[test]
fn resource_failed_filling_x_borrow() {
    filling_meets_borrow(Model("resource_failed_filling_x_borrow", 64), Make::Fail);
}
