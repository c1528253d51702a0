//! The group is detached while its first process is spawned (errata E2, E12).
//!
//! Guards that `detach_group` gives up the spawn in flight (`give_up_spawn`) and joins no thread, and that the
//! spawn's thread disposes of its process (`Effect::Unwanted`). Without the first, a process spawned before the
//! detach serves after it. Without the second, it lives for ever without an owner (PROP-NO-ORPHAN). In the pseudocode
//! the detach waits for the spawn while it holds the lock. Asserted: a process spawned after the detach serves the
//! next get, and each process is shut down once.

use crate::models::rig::*;

#[test]
fn spawn_x_detach() {
    explore(Model("spawn_x_detach", 96_938), &["given up", "spawned before"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        assert!(rig.pool.detach_group("/a"));
        let session = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(session.pid(), 2, "spawned before the detach");
        drop(session);
        let before = rig.attached_and_detached() == 1;
        outcomes.note(if before { "spawned before" } else { "given up" });
        assert_eq!(rig.end(), [1, 2]);
    });
}
