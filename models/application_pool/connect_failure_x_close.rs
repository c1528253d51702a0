//! A get finds that the process has crashed while another session of it is closed (errata E16, E31).
//!
//! Guards `State::checkout_again`: a get that cannot connect ends its session as refused, which detaches the process.
//! Otherwise the get would meet the crashed process again until it gave up. Asserted:
//! another process serves the get, and the crashed one is shut down once. User code does not re-enter the pool: loom
//! would need more than a minute.

use crate::models::rig::*;

#[test]
fn connect_failure_x_close() {
    let ways = ["closed first", "drains"];
    explore(Model("connect_failure_x_close", 6_582), &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        rig.spawner.always("/a", unlimited());
        let session = rig.session(&app("a"));
        rig.spawner.processes()[0].kill();
        let closer = spawn(move || session.end(Ending::Closed));
        assert_eq!(rig.pool.get(&app("a")).expect("a session").pid(), 2);
        let found: Found = closer.join().expect("no panic");
        outcomes.note(if found == Found::Draining { "drains" } else { "closed first" });
        assert_eq!(rig.end(), [1, 2]);
    });
}
