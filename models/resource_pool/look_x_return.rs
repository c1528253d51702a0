//! What is waited for comes back while the borrower has stepped aside, to look once more before it sleeps.
//!
//! Guards the look that follows `Mutex::step_aside` in `Inner::wait`: without it, what was handed over meanwhile
//! has woken nobody, and the borrower sleeps for ever beside what is its own (INV-RP-EXACT-WAKE-UP). Natively nearly
//! each wait begins so; in the other models none does, and the borrower sleeps at once.
//! Asserted: the borrower is served, or its time is up, and what it waited for is idle in the end.

use crate::models::resource_pool::return_x_borrow::came_late_or_waited;
use crate::models::resource_pool::return_x_time_out::served_or_timed_out;
use crate::models::resource_pool::rig::*;
use crate::sync::aside;

#[test]
fn resource_look_x_return() {
    explore_small("resource_look_x_return", &["came late", "waited"], |outcomes| {
        aside::allow();
        let rig = unkeyed(|b| b.max_active(1));
        came_late_or_waited(&rig, outcomes);
    });
}

/// Two that look, and the first is served by the return, the second by the first.
#[test]
fn resource_two_looks_x_return() {
    explore("resource_two_looks_x_return", &["served"], |outcomes| {
        aside::allow();
        let rig = unkeyed(|b| b.max_active(1));
        let lent = rig.lend();
        let arrivals = [rig.pool.clone(), rig.pool.clone()];
        let arrivals = arrivals.map(|pool| spawn(move || use_one(&pool)));
        drop(lent);
        for arrival in arrivals {
            assert_eq!(arrival.join().expect("no panic"), 1);
        }
        outcomes.note("served");
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1]);
    });
}

/// The time is up meanwhile, or what comes back and the end of the time meet.
#[test]
fn resource_look_x_time_out() {
    explore("resource_look_x_time_out", &["served", "timed out"], |outcomes| {
        aside::allow();
        let rig = unkeyed(|b| b.max_active(1));
        served_or_timed_out(&rig, outcomes);
    });
}
