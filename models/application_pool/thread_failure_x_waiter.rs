//! No spawner thread can be started, and two gets want a process (erratum E11).
//!
//! Guards `Inner::try_to_start_spawner_thread`: if no thread can carry out an order, its reservation ends with an
//! error. In the pseudocode the group spawns for ever. Asserted: both gets fail with the error, and no capacity stays
//! reserved.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn thread_failure_x_waiter() {
    explore_small(
        Model("thread_failure_x_waiter", 64),
        &["both waited", "one waited"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1).spawner_stack_size(usize::MAX))
                .reentrant()
                .with_reentrant_observer();
            let pool = rig.pool.clone();
            let other = spawn(move || pool.get(&app("a")).map(drop));
            assert!(matches!(rig.pool.get(&app("a")), Err(GetError::Spawn(_))));
            assert!(matches!(other.join(), Ok(Err(GetError::Spawn(_)))));
            let counts = rig.pool.counts();
            assert_eq!((counts.spawning, counts.waiting), (0, 0));
            let waited = rig.pool.snapshot().totals.waited;
            outcomes.note(if waited == 2 { "both waited" } else { "one waited" });
        },
    );
}
