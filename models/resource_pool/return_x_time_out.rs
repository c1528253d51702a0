//! A borrower's time is up while what it waits for comes back.
//!
//! Guards `Inner::wait`: it looks for its outcome before it looks at the clock, and leaves the queue in the
//! section in which it gives up. Without the one, what was handed over is lost with the borrower; without
//! the other, it is handed to somebody who has left. Asserted: the borrower is served or has timed
//! out, and in either case the thing is idle in the end.

use crate::models::resource_pool::rig::*;
use crate::sync::explore::Outcomes;

#[test]
fn resource_return_x_time_out() {
    explore("resource_return_x_time_out", &["served", "timed out"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        served_or_timed_out(&rig, outcomes);
    });
}

/// Lends the one thing there is, and takes it back while a borrower waits whose time comes to its end.
pub(super) fn served_or_timed_out(rig: &Things<Unkeyed>, outcomes: &Outcomes) {
    let lent = rig.lend();
    let pool = rig.pool.clone();
    let borrower = spawn(move || match pool.borrow_timeout(SECOND) {
        Ok(_) => "served",
        Err(BorrowError::TimedOut) => "timed out",
        Err(error) => panic!("{error}"),
    });
    let clock = rig.clock.clone();
    let time = spawn(move || clock.advance(SECOND));
    // The clock may have been moved before the borrower came: this ends that one's wait.
    drop(lent);
    outcomes.note(borrower.join().expect("no panic"));
    time.join().expect("no panic");
    assert_eq!(rig.counts(), (0, 1, 1));
    assert_eq!(rig.end(), [1]);
}
