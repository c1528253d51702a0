//! A get for a new group meets a background spawn that will fill the pool (erratum E3).
//!
//! Guards that a spawn reserves its capacity (`State::may_reserve` counts `reserved`). In the pseudocode, with `max`
//! 2, two gets of A, a get of B and then the spawn's end give three processes. Asserted: INV-CAPACITY in each
//! section, and the new group is served, in the place that the background spawn's process gives up again.

use crate::models::rig::*;

#[test]
fn spawn_x_new_group() {
    explore(Model("spawn_x_new_group", 167_214), &["attached before", "in flight"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        rig.spawner.always("/a", unlimited());
        let first = rig.session(&app("a"));
        // The same process serves this get, which begins a spawn.
        let second = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(second.pid(), 1);
        let in_flight = rig.pool.counts().spawning == 1;
        let third = rig.pool.get(&app("b")).expect("a session");
        assert_eq!(third.request("r"), "r from /b");
        assert_eq!(rig.counts(), (2, 2));
        outcomes.note(if in_flight { "in flight" } else { "attached before" });
        drop((first, second, third));
        assert_eq!(rig.end(), [1, 2, 3]);
    });
}
