//! A waiter's deadline passes while its resource comes back.
//!
//! Guards `section::block`: the waiter looks for its outcome before it looks at the clock. Without that, a grant is
//! lost with its waiter. Guards that the waiter leaves the queue in the section that gives up (`State::give_up`).
//! Without that, a later grant goes to a waiter that has left. Asserted: the borrower is served or times out, and the
//! resource is idle in the end.

use crate::models::resource_pool::rig::*;
use crate::models::tool::explore::Outcomes;

#[test]
fn resource_return_x_timeout() {
    explore(Model("resource_return_x_timeout", 2_835), &["served", "timed out"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        served_or_timed_out(&rig, outcomes);
    });
}

/// Lends the one resource, and returns it beside a waiter whose deadline passes.
pub(super) fn served_or_timed_out(rig: &Rig<Unkeyed>, outcomes: &Outcomes) {
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let borrower = spawn(move || match pool.borrow_timeout(SECOND) {
        Ok(_) => "served",
        Err(BorrowError::TimedOut(_)) => "timed out",
        Err(error) => panic!("{error}"),
    });
    let clock = rig.clock.clone();
    let time = spawn(move || clock.advance(SECOND));
    // If the clock moved before the borrower came, only this return ends the wait.
    drop(lent);
    outcomes.note(borrower.join().expect("no panic"));
    time.join().expect("no panic");
    assert_eq!(rig.counts(), (0, 1, 1));
    assert_eq!(rig.end(), [1]);
}
