//! Stock is filled up while somebody comes, and there may be one thing only.
//!
//! Guards `State::added`, which settles through `State::stock` if a thing was made, and through
//! `State::left` if none was; and the reservation of the place in `State::begin_stock`. Without the
//! first, who came meanwhile sleeps for ever beside the stock; without the second, beside the room; without
//! the third, there are two things. Asserted: the borrower is lent what was made for stock, or what was made
//! for it, and never is there more than one.

use crate::models::resource_pool::rig::*;

fn filling_meets_borrow(name: &str, end: Make) {
    let expected = ["after a wait", "at once"];
    explore_small(name, &expected, move |outcomes| {
        let rig = unkeyed(|b| b.max_total(1)).reentrant();
        rig.factory.next(&[end]);
        let waited = Bell::new();
        let (theirs, weak) = (waited.clone(), rig.pool.downgrade());
        rig.factory.on_call(move |call| {
            if call == Call::Create && weak.upgrade().is_some_and(|p| p.num_waiting() == 1) {
                theirs.ring();
            }
        });
        let pool = rig.pool.clone();
        let filling = spawn(move || pool.add().is_ok());
        let lent = rig.pool.borrow().map(|lent| lent.number);
        let added = filling.join().expect("no panic");
        let waits = waited.rung() > 0;
        match end {
            Make::Well => assert_eq!((lent, rig.factory.made()), (Ok(1), 1)),
            // Whoever made first has the failure.
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
    filling_meets_borrow("resource_filling_x_borrow", Make::Well);
}

#[test]
fn resource_failed_filling_x_borrow() {
    filling_meets_borrow("resource_failed_filling_x_borrow", Make::Fail);
}
