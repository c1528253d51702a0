//! A get meets the close of the only session of a full pool.
//!
//! Guards the hand-over in `State::close_session` (the call of `settle` when somebody waits) and the
//! look for the outcome before sleeping in `section::block`. Without the first, the get that has queued
//! up sleeps for ever; without the second, it does if the close comes between queueing and sleeping.
//! Guards in `Session::end` that the connection goes before the session is closed, too: else the process
//! may be handed over, or idle, while the last connection with it is still open.
//! Asserted: the get is served by the one process, at once or after waiting, and the pool ends idle;
//! whenever a connection is dropped, its process still counts as active.

use crate::models::rig::*;
use std::sync::{Arc, Mutex};

#[test]
fn get_x_session_close() {
    explore_small("get_x_session_close", &["at once", "after waiting"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        // Seen by no scheduler. A panic in a hook would be contained: what is seen is asserted in the end.
        let active = Arc::new(Mutex::new(Vec::new()));
        let (weak, sees) = (rig.pool.downgrade(), active.clone());
        rig.spawner.on_call(move |call| {
            if !crate::sync::has_failed()
                && let Some(pool) = weak.upgrade()
            {
                let counts = pool.counts();
                if call == Call::DropConnection {
                    sees.lock().expect("whole").push(counts.active);
                }
            }
        });
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        session.close();
        assert_eq!(getter.join().expect("no panic"), 1);
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(*active.lock().expect("whole"), [1, 1], "active when a connection was dropped");
        let waited = rig.pool.snapshot().totals.waited;
        // The first get waited for the first spawn.
        outcomes.note(if waited == 1 { "at once" } else { "after waiting" });
    });
}
