//! Two gets meet in an empty group of a pool for one process.
//!
//! Guards that the first process, too, is spawned without the lock (erratum E4), that a group with a
//! spawn in flight wants no other (`State::wants`), and that both gets are served by it, one after the
//! other (E17). Asserted: one spawn, and both are served by its process.

use crate::models::rig::*;

#[test]
fn first_spawn_x_two_gets() {
    explore("first_spawn_x_two_gets", &["both waited", "one waited"], |outcomes| {
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
