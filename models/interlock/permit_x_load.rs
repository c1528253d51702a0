//! The cure of the Rails guide's deadlock: an execution permits loads while it waits for a thread whose execution
//! loads.
//!
//! Guards `State::permit`, which gives the share up; settling the section then lets waiters go on. Without that last
//! step, a load that waited already sleeps for ever. Guards `State::end_permit`, which waits for the holder. Without
//! that, the execution runs on while the thread loads. Asserted: the thread loads alone, whether it waited for the
//! permit block or came during it, and the execution gets its share back.

use crate::models::interlock::rig::*;

#[test]
fn interlock_permit_x_load() {
    let expected = ["load while permitted", "load waited"];
    explore("interlock_permit_x_load", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let loaded = Bell::new();
        let theirs = (interlock.clone(), world.clone(), loaded.clone());
        let mut outer = interlock.enter();
        let thread = spawn(move || {
            let (interlock, world, loaded) = theirs;
            interlock.run(|r| {
                r.load(|_| {
                    // Before the load ends: the permit block may end first.
                    loaded.ring();
                    world.alone("load");
                })
                .expect("no deadlock");
                world.runs();
            });
        });
        let waits = in_state(&interlock, OwnerState::WaitingToLoad) == 1;
        outer.permit_loads(|| loaded.wait(1)).expect("the only share");
        world.runs();
        thread.join().expect("no panic");
        outcomes.note(if waits { "load waited" } else { "load while permitted" });
    });
}
