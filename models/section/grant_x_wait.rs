//! A permit is given back while a thread, or a task, begins to wait for it.
//!
//! Guards the steps of "no wake-up is lost" in `src/kernel/section.rs`. A thread must look for its outcome under the lock
//! before it sleeps. Otherwise it sleeps for ever if the grant came first; so does a task that keeps the waker of an
//! earlier poll. Guards besides that effects run without the lock: each give calls back into the permits, and so does
//! each waker. Asserted: the caller gets the permit, at once or after waiting.

use super::rig::Permits;
use crate::kernel::clock::Deadline;
use crate::kernel::section::Patience;
use crate::models::rig::*;
use std::pin::pin;

#[test]
fn section_grant_x_thread() {
    explore_small(Model("section_grant_x_thread", 14), &["at once", "after waiting"], |outcomes| {
        let permits = Permits::new(0);
        let theirs = permits.clone();
        let taker = spawn(move || theirs.take_as_thread(Deadline::Never));
        permits.give();
        note(outcomes, taker.join().expect("no panic"));
        assert_eq!(permits.free(), 0);
    });
}

/// The task was polled once before, with another waker.
#[test]
fn section_grant_x_task() {
    let expected = ["granted before", "granted later"];
    explore_small(Model("section_grant_x_task", 629), &expected, |outcomes| {
        let permits = Permits::new(0);
        let mut taking = pin!(permits.take(Patience::Task));
        assert!(permits.reentry.poll_once(taking.as_mut()).is_pending());
        let theirs = permits.clone();
        let giver = spawn(move || theirs.give());
        let granted = !permits.is_waited_for();
        assert_eq!(permits.reentry.block_on(taking), Some(true));
        outcomes.note(if granted { "granted before" } else { "granted later" });
        giver.join().expect("no panic");
        assert_eq!(permits.free(), 0);
    });
}

fn note(outcomes: &crate::models::tool::explore::Outcomes, waited: Option<bool>) {
    outcomes.note(match waited.expect("granted") {
        true => "after waiting",
        false => "at once",
    });
}
