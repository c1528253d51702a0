//! Everything is declared out of date while something comes back, or is being made.

use crate::models::resource_pool::rig::*;

/// Guards the look at the generation in `State::stock`: what was lent before the clear is not to be lent
/// again. Without it, what comes back after the clear has gone through stock stays. Asserted: the thing is
/// destroyed, whichever was first, and the next borrower gets a new one.
#[test]
fn resource_clear_all_x_return() {
    let expected = ["cleared first", "returned first"];
    explore_small("resource_clear_all_x_return", &expected, |outcomes| {
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

/// Guards the generation that a place has from its reservation on (`State::reserve`): who begins to make a
/// thing before the clear may have seen what was then cleared away. Asserted: a thing whose creation had begun
/// before the clear is destroyed, at the latest when it comes back; of those that begin beside it, some are
/// kept.
#[test]
fn resource_clear_all_x_creation() {
    let expected =
        ["begun before, destroyed", "begun beside it, destroyed", "begun beside it, kept"];
    explore_small("resource_clear_all_x_creation", &expected, |outcomes| {
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
