//! `clear_all` runs while a resource comes back, or is created.

use crate::models::resource_pool::rig::*;

/// Guards the check of the epoch in `State::must_leave`. Otherwise a resource that comes back after the clear
/// becomes idle and is lent again.
///
/// Asserted: the resource is destroyed, in either order, and the next borrower gets a new one.
#[test]
fn resource_clear_all_x_return() {
    let expected = ["cleared first", "returned first"];
    explore_small(Model("resource_clear_all_x_return", 14), &expected, |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        let lent = rig.lend();
        let returning = spawn(move || drop(lent));
        let returned = rig.pool.num_active() == 0;
        rig.pool.clear_all();
        returning.join().expect("no panic");
        assert_eq!(rig.factory.gone(), [1]);
        assert_eq!(use_one(&rig.pool), 2);
        outcomes.note(if returned { "returned first" } else { "cleared first" });
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// Guards that `State::reserve` records the epoch of a place: a creation that begins before the clear may use
/// outdated data. Otherwise its resource stays idle and is lent.
///
/// Asserted: a resource is destroyed if its creation began before the clear, at the latest when it comes back. One
/// that begins beside the clear may be kept.
#[test]
fn resource_clear_all_x_creation() {
    let expected =
        ["begun before, destroyed", "begun beside it, destroyed", "begun beside it, kept"];
    explore_small(Model("resource_clear_all_x_creation", 35), &expected, |outcomes| {
        let rig = unkeyed(|b| b).reentrant();
        let pool = rig.pool.clone();
        let borrower = spawn(move || use_one(&pool));
        let begun = rig.pool.num_total() == 1;
        rig.pool.clear_all();
        assert_eq!(borrower.join().expect("no panic"), 1);
        let kept = rig.pool.num_idle() == 1;
        outcomes.note(match (begun, kept) {
            (true, true) => panic!("begun before the clear, and kept"),
            (true, false) => "begun before, destroyed",
            (false, false) => "begun beside it, destroyed",
            (false, true) => "begun beside it, kept",
        });
        assert_eq!(rig.end(), [1]);
    });
}
