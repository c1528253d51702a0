//! The first process of one group hangs while a get asks for another group (erratum E4).
//!
//! Guards that each process is spawned without the lock, the first of a group, too. In the pseudocode one application
//! that hangs freezes every get, every close and every look at the pool. Asserted: the other group's get is served,
//! and its session closed, while the first hangs (PROP-CLOSE-POSSIBLE).

use crate::models::rig::*;

#[test]
fn hanging_spawn_x_other_group() {
    explore(Model("hanging_spawn_x_other_group", 17_994), &["served"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        rig.spawner.always("/a", Spawn::ready().held());
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        drop(rig.pool.get(&app("b")).expect("a session"));
        assert_eq!(rig.pool.counts().spawning, 1, "the first group still hangs");
        rig.spawner.release();
        drop(rig.pool.get(&app("a")).expect("a session"));
        // Few random schedules let the second spawn begin before the first, so that is no outcome of its own.
        outcomes.note("served");
        assert_eq!(rig.end(), [1, 2]);
    });
}
