//! An operator forfeits an execution while it ends.
//!
//! Guards the look at the owner's context in `forfeit`, and the one in `Running::drop`. Without them, the share is
//! given back twice, or never. Asserted: both ways are reached, and afterwards no owner is left.
//!
//! In the second model the execution is a child. Guards the children that `forfeit` and `leave` count in its parent.
//! Without them a loading parent may not wait though its child was forfeited, or may wait for a living one. Asserted:
//! it may wait in the first case only.

use crate::execution::interlock::Running;
use crate::models::interlock::rig::*;

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

#[test]
fn interlock_forfeit_x_leaving_child() {
    let expected = ["ended by itself", "forfeited"];
    explore("interlock_forfeit_x_leaving_child", &expected, |outcomes| {
        let interlock = Interlock::new();
        let mut parent = interlock.enter();
        let waits_and_loads = |parent: &mut Running<'_>| {
            parent.load(|_| interlock.run(|r| r.waiting(|| ()).is_ok())).expect("no deadlock")
        };
        let child = parent.child().enter();
        let id = child.id();
        let thread = spawn(move || drop(child));
        let forfeited = interlock.forfeit(id);
        assert!(waits_and_loads(&mut parent), "an ended child does not count");
        thread.join().expect("no panic");
        let next = parent.child();
        assert!(!waits_and_loads(&mut parent), "there is one child");
        drop(next);
        outcomes.note(if forfeited { "forfeited" } else { "ended by itself" });
    });
}
