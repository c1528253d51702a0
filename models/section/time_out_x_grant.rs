//! A thread's deadline passes while a permit is given back.
//!
//! Guards that a thread looks for its outcome before it sleeps, and keeps the lock from its look at the clock until
//! it sleeps. Otherwise it misses the grant, or the moved clock (`Lock::clock_advanced`). Asserted: the thread has
//! the permit, or the permit is free.

use super::rig::{Permits, SECOND};
use crate::models::rig::*;

#[test]
fn section_time_out_x_grant() {
    let expected = ["served", "timed out"];
    explore_small("section_time_out_x_grant", &expected, |outcomes| {
        let permits = Permits::new(0);
        let (theirs, deadline) = (permits.clone(), permits.clock().deadline(SECOND));
        let taker = spawn(move || theirs.take_as_thread(deadline));
        let clock = permits.clock.clone();
        let time = spawn(move || clock.advance(SECOND));
        permits.give();
        time.join().expect("no panic");
        let taken = taker.join().expect("no panic").is_some();
        assert_eq!(permits.free(), usize::from(!taken), "no permit is lost");
        outcomes.note(if taken { "served" } else { "timed out" });
    });
}

/// No permit is given back: only the clock ends the wait.
#[test]
fn section_time_out_x_sleep() {
    explore_small("section_time_out_x_sleep", &["timed out"], |outcomes| {
        let permits = Permits::new(0);
        let (theirs, deadline) = (permits.clone(), permits.clock().deadline(SECOND));
        let taker = spawn(move || theirs.take_as_thread(deadline));
        permits.clock.advance(SECOND);
        assert_eq!(taker.join().expect("no panic"), None);
        outcomes.note("timed out");
    });
}
