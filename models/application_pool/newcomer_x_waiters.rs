//! Two gets wait, and a third tries while the process is freed (erratum E17).
//!
//! Guards the order of the queue (`Waiters::enqueue`) and the hand-off under the lock
//! (`State::global_queue_position_became_available`). The pseudocode wakes every waiter and serves the first to
//! arrive, a newcomer, too. Asserted: the newcomer is not served, and the earlier of the two waiters is
//! (PROP-NO-OVERTAKING).

use crate::models::rig::*;
use std::pin::pin;

#[test]
fn newcomer_x_waiters() {
    explore(
        Model("newcomer_x_waiters", 350),
        &["before the close", "after the close"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant();
            let app = app("a");
            let session = rig.session(&app);
            let mut first = pin!(rig.pool.get_async(&app));
            let mut second = pin!(rig.pool.get_async(&app));
            assert!(poll_once(first.as_mut()).is_pending());
            assert!(poll_once(second.as_mut()).is_pending());
            let closer = spawn(move || drop(session));
            let freed = rig.pool.counts().waiting == 1;
            assert!(rig.pool.try_get(&app).is_err(), "the newcomer overtook the waiters");
            let served = block_on(first).expect("a session");
            assert!(poll_once(second.as_mut()).is_pending(), "served out of turn");
            drop(served);
            drop(block_on(second).expect("a session"));
            closer.join().expect("no panic");
            outcomes.note(if freed { "after the close" } else { "before the close" });
        },
    );
}
