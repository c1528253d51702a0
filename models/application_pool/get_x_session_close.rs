//! A get meets the close of the only session of a full pool.
//!
//! Guards:
//! - the hand-off in `State::close_session` (it settles the group if a get waits). Without it, a queued get sleeps
//!   for ever;
//! - the look for the outcome before a thread sleeps, in `section::block`. Without it, a get sleeps for ever if the
//!   close comes after the get has queued up;
//! - in `Session::end`, that the connection is dropped before the session closes. Otherwise the pool may lend out the
//!   process, or count it as idle, while its last connection is open.
//!
//! Asserted: the one process serves the get, at once or after waiting, and the pool ends idle. Whenever a connection
//! is dropped, its process still counts as active.

use crate::models::rig::*;
use std::sync::{Arc, Mutex};

#[test]
fn get_x_session_close() {
    explore_small(Model("get_x_session_close", 44), &["at once", "after waiting"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        // The scheduler does not see this list. A panic in a hook would be contained, so the model asserts on it in
        // the end.
        let active = Arc::new(Mutex::new(Vec::new()));
        let (weak, sees) = (rig.pool.downgrade(), active.clone());
        rig.spawner.on_call(move |call| {
            if !crate::kernel::sync::has_failed()
                && let Some(pool) = weak.upgrade()
            {
                let counts = pool.counts();
                if call == Call::DropConnection {
                    sees.lock().expect("the lock is not poisoned").push(counts.active);
                }
            }
        });
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        drop(session);
        assert_eq!(getter.join().expect("no panic"), 1);
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(
            *active.lock().expect("the lock is not poisoned"),
            [1, 1],
            "active when a connection was dropped"
        );
        let waited = rig.pool.snapshot().totals.waited;
        // The first get waited for the first spawn.
        outcomes.note(if waited == 1 { "at once" } else { "after waiting" });
    });
}
