//! A future is dropped while the spawn that it waits for fails (errata E16, E26).
//!
//! Guards that giving up leaves the queue and its count in one section (`State::leave_queue`). Without
//! that, `waiting` is wrong for ever and the failed spawn tells a get that is no more. Asserted: nobody
//! waits in the end, and the next get is told at once, for the group backs off.

use super::rig::*;
use crate::GetError;

#[test]
fn cancel_x_spawn_failure() {
    explore_small("cancel_x_spawn_failure", &["gave up", "was told"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        rig.spawner.always("/a", Spawn::fail("no database"));
        let app = app("a");
        let mut future = Box::pin(rig.pool.get_async(&app));
        let told = rig.door.poll_once(future.as_mut()).is_ready()
            || rig.door.poll_once(future.as_mut()).is_ready();
        drop(future);
        outcomes.note(if told { "was told" } else { "gave up" });
        assert!(matches!(rig.pool.get(&app), Err(GetError::Spawn(_))));
        let counts = rig.pool.counts();
        assert_eq!((counts.waiting, counts.spawning), (0, 0));
    });
}
