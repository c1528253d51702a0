//! The cleaner passes while a session closes that lasted as long as a process may be idle.
//!
//! Guards that a close sets `last_used` before the process becomes idle (errata E5, E30). Without it, the cleaner
//! takes a process that has just answered a request for one that was idle all the time. Asserted: the process stays
//! and serves the next get, whether the pass comes before the close or after it.

use crate::models::rig::*;

#[test]
fn clean_x_session_close() {
    explore_small(
        Model("clean_x_session_close", 14),
        &["busy at the pass", "idle at the pass"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
            let session = rig.session(&app("a"));
            rig.clock.advance(IDLE);
            let pool = rig.pool.clone();
            let cleaner = spawn(move || {
                let busy = pool.counts().active == 1;
                pool.clean();
                busy
            });
            drop(session);
            let busy = cleaner.join().expect("no panic");
            outcomes.note(if busy { "busy at the pass" } else { "idle at the pass" });
            assert!(rig.spawner.shut_down().is_empty(), "cleaned although it was just used");
            assert_eq!(rig.pool.try_get(&app("a")).expect("it is there").pid(), 1);
        },
    );
}

/// The cleaner passes while a process is attached.
///
/// Guards `last_used` in `State::attach`: the pseudocode never sets it for a process spawned in the background
/// (erratum E5).
#[test]
fn clean_x_new_process() {
    explore(
        Model("clean_x_new_process", 263),
        &["after its attach", "before its attach"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
            rig.clock.advance(2 * IDLE);
            assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
            let attached = rig.pool.counts().count == 1;
            rig.pool.clean();
            outcomes.note(if attached { "after its attach" } else { "before its attach" });
            assert_eq!(rig.pool.get(&app("a")).expect("a session").pid(), 1);
            assert!(rig.spawner.shut_down().is_empty(), "cleaned although it was just attached");
        },
    );
}
