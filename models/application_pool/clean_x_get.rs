//! The cleaner meets a get for the process that has been idle for too long.
//!
//! Guards that the choice and the detach are each one critical section: a process that was chosen is
//! not idle any more (INV-PROCESS-IDLE, INV-INACTIVE-IDLE), and one that was detached is not chosen
//! (INV-PROCESS-ACCESSIBLE). Asserted: the get is served by the old
//! process or by a new one; if by the old one, it was not shut down under it.

use crate::models::rig::*;

#[test]
fn clean_x_get() {
    explore("clean_x_get", &["by the old", "by a new one"], |outcomes| {
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
