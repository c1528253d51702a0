//! Processes are detached while the group's minimum is being refilled (erratum E28).
//!
//! Guards that `State::wants` asks for more below the minimum, after every loss. The pseudocode looks at the minimum
//! only when the group is created. Asserted: without another get, enough spawns run to restore the minimum
//! (PROP-MINIMUM-REFILLED). User code re-enters the pool only under shuttle: loom would need more than a minute.

use crate::models::rig::*;

#[test]
fn minimum_x_detach() {
    explore(Model("minimum_x_detach", 9_838), &["at work", "refilled"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        let spawned = rig.counter_of(Call::Spawn);
        let two = app("a").with_min_processes(2);
        rig.idle(&two);
        let identifiers: Vec<_> =
            rig.spawner.processes().iter().map(|process| process.identifier()).collect();
        assert_eq!(identifiers.len(), 2, "the minimum");
        for identifier in identifiers {
            assert!(rig.pool.detach(identifier));
        }
        let at_work = rig.pool.counts().spawning > 0;
        spawned.wait(4);
        outcomes.note(if at_work { "at work" } else { "refilled" });
    });
}
