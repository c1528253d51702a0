//! Two gets meet at a process with room for both (erratum E35).
//!
//! Guards in `State::checkout_without_lock` that a busy process with room serves a get without another spawn. In the
//! pseudocode an application that keeps its state in memory is given a second process as soon as two sessions overlap.
//! Asserted: one spawn (PROP-GROWTH).

use crate::models::rig::*;

#[test]
fn growth_x_get() {
    explore(Model("growth_x_get", 861), &["overlapping", "one by one"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        rig.spawner.always("/a", unlimited());
        let lone = app("a").with_eager_growth(false);
        let session = rig.session(&lone);
        let pool = rig.pool.clone();
        let getter = spawn(move || {
            let session = pool.get(&lone).expect("a session");
            let sessions = pool.snapshot().groups[0].processes[0].sessions;
            drop(session);
            sessions
        });
        drop(session);
        let sessions = getter.join().expect("no panic");
        outcomes.note(if sessions == 2 { "overlapping" } else { "one by one" });
        assert_eq!(rig.spawner.begun(), 1);
        assert_eq!(rig.end(), [1]);
    });
}
