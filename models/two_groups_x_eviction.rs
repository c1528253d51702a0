//! A get for a new group meets a full pool whose process is just being freed (errata E17, E18).
//!
//! Guards `State::new_app_group_creatable`: the starving group condemns the busy process or evicts the
//! idle one. Without the call of `settle` at the close, or without the condemned process being taken
//! out at its last session, the get for the new group sleeps for ever. Asserted: it is served, by a
//! process of its own.

use super::rig::*;

#[test]
fn two_groups_x_eviction() {
    explore("two_groups_x_eviction", &["evicted idle", "made room"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || {
            let session = pool.get(&app("b")).expect("a session");
            assert_eq!(session.request("r"), "r from /b");
        });
        // Whether the other is in line already.
        let waits = rig.pool.counts().waiting == 1;
        session.close();
        getter.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
        assert_eq!(rig.spawner.shut_down().len(), 1);
        outcomes.note(if waits { "made room" } else { "evicted idle" });
    });
}
