//! A get times out while the process that it waits for is freed.
//!
//! Guards `section::block`: it looks for its outcome before it looks at the clock, and gives up and leaves the queue
//! in one section. Without that, a session is granted to a get that has left. Asserted: the get is served or times
//! out, and the process is idle in the end.

use crate::application_pool::GetError;
use crate::models::rig::*;
use crate::models::tool::explore::Outcomes;
use std::time::Duration;

#[test]
fn waiter_x_timeout() {
    explore(Model("waiter_x_timeout", 12_999), &["served", "timed out"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        served_or_timed_out(&rig, outcomes);
    });
}

/// Closes the session of the only process while a get waits whose deadline passes.
pub(super) fn served_or_timed_out(rig: &Rig, outcomes: &Outcomes) {
    let session = rig.session(&app("a"));
    let pool = rig.pool.clone();
    let getter = spawn(move || pool.get_timeout(&app("a"), Duration::from_secs(1)).map(drop));
    let clock = rig.clock.clone();
    let time = spawn(move || clock.advance(Duration::from_secs(1)));
    // The clock may have moved before the get began: this then ends the get's wait.
    drop(session);
    outcomes.note(match getter.join().expect("no panic") {
        Ok(()) => "served",
        Err(GetError::TimedOut) => "timed out",
        Err(other) => panic!("{other}"),
    });
    time.join().expect("no panic");
    assert_eq!(rig.counts(), (0, 1));
}

/// The time of a get in the queue ends while the process that it waits for is freed.
///
/// Guards `State::end_queue_time`: it takes the get out of the queue and out of the count in one section. Asserted: the
/// get is served or fails, and the process is idle in the end.
#[test]
fn waiter_x_queue_time() {
    explore(Model("waiter_x_queue_time", 8_398), &["served", "queued too long"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let limited = app("a").with_max_queue_time(Duration::from_secs(1));
        let session = rig.session(&limited);
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&limited).map(drop));
        let (clock, pool) = (rig.clock.clone(), rig.pool.clone());
        let cleaner = spawn(move || {
            clock.advance(Duration::from_secs(1));
            pool.clean();
        });
        drop(session);
        outcomes.note(match getter.join().expect("no panic") {
            Ok(()) => "served",
            Err(GetError::QueuedTooLong) => "queued too long",
            Err(other) => panic!("{other}"),
        });
        cleaner.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
    });
}
