//! A get for a new group meets a background spawn that will fill the pool (erratum E3).
//!
//! Guards that a spawn reserves its capacity (`State::may_reserve` counts what is reserved). As the text
//! has it, max 2, `get A`, `get A`, `get B`, spawn ends: three processes. Asserted: INV-CAPACITY in each
//! section, and that the new group is served: by the place that the newcomer gives up again.

use crate::models::rig::*;

#[test]
fn spawn_x_new_group() {
    explore("spawn_x_new_group", &["attached before", "in flight"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        rig.spawner.always("/a", unlimited());
        let first = rig.session(&app("a"));
        // Served by the same process, and begins a spawn.
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
