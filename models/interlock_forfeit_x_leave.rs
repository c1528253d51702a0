//! An operator forfeits an execution just as it ends.
//!
//! Guards the look at the owner's context in `forfeit`, and the one in `Running::drop`: without them, a
//! share is given back twice, or never. Asserted: both ways are reached, and afterwards nobody is left.

use super::interlock_rig::*;

#[test]
fn interlock_forfeit_x_leave() {
    let expected = ["ended by itself", "forfeited"];
    explore("interlock_forfeit_x_leave", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let running = interlock.enter();
        let id = running.id();
        let thread = spawn(move || drop(running));
        let forfeited = interlock.forfeit(id);
        thread.join().expect("no panic");
        interlock.unload(|_| world.alone("unload")).expect("no deadlock");
        assert!(interlock.dump().owners.is_empty());
        outcomes.note(if forfeited { "forfeited" } else { "ended by itself" });
    });
}
