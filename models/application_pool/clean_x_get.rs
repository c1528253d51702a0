//! The cleaner meets a get for the process that has been idle for too long.
//!
//! Guards that the choice and the detach are one critical section each. A chosen process is no longer idle
//! (INV-PROCESS-IDLE, INV-INACTIVE-IDLE), and a detached process is never chosen (INV-PROCESS-ACCESSIBLE). Otherwise
//! the cleaner shuts down a process with a session. Asserted: the old process serves the get and still runs, or a new
//! one serves it.

use crate::models::rig::*;

#[test]
fn clean_x_get() {
    explore(Model("clean_x_get", 1_021), &["by the old", "by a new one"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.idle(&app("a"));
        rig.clock.advance(IDLE);
        let pool = rig.pool.clone();
        let cleaner = spawn(move || pool.clean());
        let session = rig.pool.get(&app("a")).expect("a session");
        let shut_down = rig.spawner.shut_down();
        match session.pid() {
            1 => assert!(shut_down.is_empty(), "shut down while it has a session"),
            _ => assert_eq!(shut_down.len(), 1),
        }
        outcomes.note(if session.pid() == 1 { "by the old" } else { "by a new one" });
        cleaner.join().expect("no panic");
        drop(session);
        assert_eq!(rig.counts(), (0, 1));
    });
}
