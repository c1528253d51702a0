//! The only process of a group is disabled, and enabled again, while a get comes.
//!
//! Guards that `State::set_enabled` settles the group, and that a disabled process has no room (PROP-DISABLED).
//! Otherwise the get sleeps beside an enabled process, or is given a disabled one.
//!
//! Asserted: the get is served, by the process that is enabled again (INV-DISABLED).

use crate::models::rig::*;

#[test]
fn disable_x_get() {
    explore(Model("disable_x_get", 46), &["not yet or no longer waiting", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        drop(rig.session(&app("a")));
        let identifier = rig.spawner.processes()[0].identifier();
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        assert!(rig.pool.disable(identifier));
        let waits = rig.pool.counts().waiting == 1;
        assert!(rig.pool.enable(identifier));
        assert_eq!(getter.join().expect("no panic"), 1);
        outcomes.note(if waits { "waited" } else { "not yet or no longer waiting" });
        assert_eq!(rig.counts(), (0, 1));
    });
}
