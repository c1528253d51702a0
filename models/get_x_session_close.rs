//! A get meets the close of the only session of a full pool.
//!
//! Guards the hand-over in `State::close_session` (the call of `settle` when somebody waits) and the
//! look for the outcome before sleeping in `Inner::wait`. Without the first, the get that has queued
//! up sleeps for ever; without the second, it does if the close comes between queueing and sleeping.
//! Asserted: the get is served by the one process, at once or after waiting, and the pool ends idle.

use super::rig::*;

#[test]
fn get_x_session_close() {
    explore_small("get_x_session_close", &["at once", "after waiting"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        session.close();
        assert_eq!(getter.join().expect("no panic"), 1);
        assert_eq!(rig.counts(), (0, 1));
        let waited = rig.pool.snapshot().totals.waited;
        // The first get waited for the first spawn.
        outcomes.note(if waited == 1 { "at once" } else { "after waiting" });
    });
}
