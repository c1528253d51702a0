//! The last handle of the pool is dropped while a session is closed (errata E13, E32).
//!
//! Guards that a dropped pool lets its sessions finish (`State::close` drains busy processes). Guards that the close
//! of the last session shuts the process down (`end_drain` in `State::close_session`). Without the latter, the
//! process outlives the pool. Asserted: the close finds the process attached or draining, never gone, and the process
//! is then shut down once, as drained.

use crate::application_pool::ShutDown;
use crate::models::rig::*;

#[test]
fn session_close_x_pool_drop() {
    let ways = ["Draining", "Live"];
    explore_small(Model("session_close_x_pool_drop", 7), &ways, |outcomes| {
        let Rig { pool, spawner, .. } = Rig::new(|b| b.max(1)).reentrant();
        let session = {
            let pool = pool.clone();
            crate::kernel::sync::thread::inline(move || pool.get(&app("a"))).expect("a session")
        };
        let closer = spawn(move || session.end(Ending::Closed));
        drop(pool);
        let found: Found = closer.join().expect("no panic");
        outcomes.note(format!("{found:?}"));
        assert_eq!(spawner.shut_down(), [(1, ShutDown::Drained)]);
    });
}
