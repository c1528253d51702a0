//! An execution permits loads while it waits for its child, and another owner wants to unload (defect
//! `rails-child-behind-unload` of Rails).
//!
//! Guards the condition of `State::enter` for descendants: they wait for the holder alone. A child that enters like
//! any newcomer waits behind the unload. The unload waits for the end of the permit block, which waits for the child.
//! Asserted: all three end, and the unload comes after the parent's permit block, whether it asked before or after
//! the child came (PROP-ILK-PROGRAMS-END, INV-ILK-NO-PERMIT-IN-UNLOAD).

use crate::models::interlock::rig::*;

#[test]
fn interlock_permit_x_unload_x_child() {
    let expected = ["child first", "unload waited already"];
    explore("interlock_permit_x_unload_x_child", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let mut parent = interlock.enter();
        let (child, there, ilk) = (parent.child(), world.clone(), interlock.clone());
        let thread = spawn(move || {
            let before = in_state(&ilk, OwnerState::WaitingToUnload);
            child.run(|_| there.note("child"));
            before
        });
        let (theirs, there) = (interlock.clone(), world.clone());
        let unloader =
            spawn(move || theirs.unload(|_| there.alone("unload")).expect("no deadlock"));
        let before = parent.permit_loads(|| thread.join().expect("no panic"));
        assert_eq!(world.story(), "child");
        drop(parent);
        unloader.join().expect("no panic");
        assert_eq!(world.story(), "child, unload");
        match before.expect("the only share") {
            0 => outcomes.note("child first"),
            _ => outcomes.note("unload waited already"),
        }
    });
}
