//! Processes are detached while the group's minimum is being made good (erratum E28).
//!
//! Guards that `State::wants` asks for more below the minimum, after every loss. As the text has it, the
//! minimum is looked at when the group is made, and never again. Asserted: without another get, there
//! are as many spawns as it takes to have the minimum back (PROP-MINIMUM-REFILLED). Under loom foreign calls do not
//! re-enter the pool: with that, it is not through in a minute.

use crate::models::rig::*;

#[test]
fn minimum_x_detach() {
    explore("minimum_x_detach", &["at work", "made good"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        let made = rig.bell(Call::Spawn);
        let two = app("a").with_min_processes(2);
        rig.idle(&two);
        let identifiers: Vec<_> =
            rig.spawner.processes().iter().map(|process| process.identifier()).collect();
        assert_eq!(identifiers.len(), 2, "the minimum");
        for identifier in identifiers {
            assert!(rig.pool.detach(identifier));
        }
        let at_work = rig.pool.counts().spawning > 0;
        made.wait(4);
        outcomes.note(if at_work { "at work" } else { "made good" });
    });
}
