//! Two gets meet in an empty group of a pool for one process.
//!
//! Guards that the first process is spawned without the lock, too (erratum E4). Guards that a group with a spawn in
//! flight wants no second one (`State::wants`), and that its process serves both gets in turn (E17). Asserted: one
//! spawn, whose process serves both.

use crate::models::rig::*;

#[test]
fn first_spawn_x_two_gets() {
    explore(Model("first_spawn_x_two_gets", 8_892), &["both waited", "one waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let pool = rig.pool.clone();
        let other = spawn(move || pool.get(&app("a")).expect("a session").pid());
        assert_eq!(rig.pool.get(&app("a")).expect("a session").pid(), 1);
        assert_eq!(other.join().expect("no panic"), 1);
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(rig.spawner.begun(), 1);
        let waited = rig.pool.snapshot().totals.waited;
        outcomes.note(if waited == 2 { "both waited" } else { "one waited" });
    });
}
