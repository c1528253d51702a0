//! A creation fails or panics while another borrower waits for its place.
//!
//! Guards the drop of `ReservedPlace`, and `State::give_back_place`, which settles: on every path a failed creation
//! gives its place back to the waiters. Otherwise the waiter sleeps for ever, and each failure makes the pool
//! smaller.
//!
//! Asserted: one borrower gets the error of its own creation, and the other gets a resource. The panic is
//! contained.

use crate::models::resource_pool::rig::*;

fn creation_ends(model: Model, end: Make, failure: &Failure<&'static str>) {
    let failure = failure.clone();
    explore_small(model, &["here", "there"], move |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        rig.factory.next(&[end]);
        let pool = rig.pool.clone();
        let there = spawn(move || pool.borrow().map(|lent| lent.number));
        let here = rig.pool.borrow().map(|lent| lent.number);
        let there = there.join().expect("no panic");
        let (place, (failed, served)) = match here.is_err() {
            true => ("here", (here, there)),
            false => ("there", (there, here)),
        };
        assert_eq!(failed, Err(BorrowError::Create(failure.clone())));
        assert_eq!(served, Ok(1));
        outcomes.note(place);
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}

#[test]
fn resource_create_failure_x_waiter() {
    creation_ends(
        Model("resource_create_failure_x_waiter", 50),
        Make::Fail,
        &Failure::Error("on purpose"),
    );
}

#[test]
fn resource_create_panic_x_waiter() {
    let message = "scripted panic in create".to_owned();
    creation_ends(
        Model("resource_create_panic_x_waiter", 50),
        Make::Panic,
        &Failure::Panicked(message),
    );
}
