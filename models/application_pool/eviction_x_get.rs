//! An idle process is evicted for another group while its own group asks for it (errata E17, E29).
//!
//! Guards that a process is chosen, and taken out, in one section each. Otherwise its own group may use an idle
//! process that is evicted for another, as in the pseudocode. Asserted: both gets are served in turn, each by a
//! process of its own group (INV-GROUP-NAME). User code does not re-enter the pool: loom would need more than a
//! minute.

use crate::models::rig::*;

#[test]
fn eviction_x_get() {
    explore(Model("eviction_x_get", 9_151), &["evicted", "used first"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("a"));
        let pool = rig.pool.clone();
        let other = spawn(move || {
            let session = pool.get(&app("b")).expect("a session");
            assert_eq!(session.request("r"), "r from /b");
        });
        let session = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(session.request("r"), "r from /a");
        outcomes.note(if session.pid() == 1 { "used first" } else { "evicted" });
        drop(session);
        other.join().expect("no panic");
        assert_eq!(rig.counts(), (0, 1));
    });
}
