//! Two returns beside two borrows.
//!
//! Guards `State::serve_first` in `State::settle`: the section of a return grants the resource to a waiter.
//! Without it, a borrower that begins to wait beside the return sleeps for ever (INV-RP-EXACT-WAKE-UP). Asserted: each
//! borrower is lent one of the two, whether it came before the returns or after; the factory creates no third.
//!
//! The factory does not re-enter the pool here: loom would need more than a minute. It does in the smaller model below.

use crate::models::resource_pool::rig::*;
use crate::models::tool::explore::Outcomes;

#[test]
fn resource_return_x_borrow() {
    let expected = ["1 and 2", "2 and 1"];
    explore(Model("resource_return_x_borrow", 6_310), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(2));
        let (one, two) = (rig.lend(), rig.lend());
        let arrivals = [rig.pool.clone(), rig.pool.clone()];
        let [first, second] = arrivals
            .map(|pool| spawn(move || Borrowed::into_owned(pool.borrow().expect("a resource"))));
        drop(one);
        drop(two);
        let (first, second) = (first.join().expect("no panic"), second.join().expect("no panic"));
        outcomes.note(format!("{} and {}", first.number, second.number));
        drop((first, second));
        assert_eq!(rig.counts(), (0, 2, 2));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// One return beside one borrow, small enough for every call of the factory to re-enter the pool.
///
/// Guards also that a waiter looks for its outcome before it sleeps (`section::block`). A thread that does not sleep
/// yet misses the wake-up of a grant.
#[test]
fn resource_return_x_one_borrow() {
    explore_small(
        Model("resource_return_x_one_borrow", 20),
        &["came late", "waited"],
        |outcomes| {
            let rig = unkeyed(|b| b.max_active(1)).reentrant();
            came_late_or_waited(&rig, outcomes);
        },
    );
}

/// Lends the one resource, and returns it beside a borrower.
pub(super) fn came_late_or_waited(rig: &Rig<Unkeyed>, outcomes: &Outcomes) {
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let arrival = spawn(move || use_one(&pool));
    let waits = rig.pool.num_waiting() == 1;
    drop(lent);
    assert_eq!(arrival.join().expect("no panic"), 1);
    outcomes.note(if waits { "waited" } else { "came late" });
    assert_eq!(rig.counts(), (0, 1, 1));
    assert_eq!(rig.end(), [1]);
}
