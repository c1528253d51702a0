//! Executions enter and leave through the atomic word while an owner that needs the mutex sets the word's bit.
//!
//! Guards the count that moves from the word into the state and back (`slow_down`, `speed_up`). Without it, the owner
//! does not wait for an execution that entered before the bit, or waits for one that leaves after it. Asserted: an
//! owner that unloads is alone; the entering execution comes before or after it.
//!
//! Guards too where an owner without a share begins to unload (`State::hold`): with a share it would not be alone, by
//! its own word (INV-ILK-FRAMES).

use crate::models::interlock::rig::*;

#[test]
fn interlock_enter_x_writer() {
    let expected = ["run, unload", "unload, run"];
    explore("interlock_enter_x_writer", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let theirs = (interlock.clone(), world.clone());
        let thread = spawn(move || {
            let (interlock, world) = theirs;
            interlock.run(|_| {
                world.note("run");
                world.runs();
            });
        });
        interlock.unload(|_| world.alone("unload")).expect("no deadlock");
        thread.join().expect("no panic");
        outcomes.note(world.story());
    });
}

/// The bit is cleared once no owner needs it, while another execution leaves and enters. Guards the same count in the
/// other direction: an execution that entered while the bit was set leaves through the word.
#[test]
fn interlock_enter_x_end_of_writer() {
    let expected = ["load, run", "run, load"];
    explore("interlock_enter_x_end_of_writer", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (theirs, there) = (interlock.clone(), world.clone());
        let stays = interlock.enter();
        let thread = spawn(move || {
            drop(stays);
            theirs.run(|_| {
                there.note("run");
                there.runs();
            });
        });
        let mut loads = interlock.enter();
        loads.load(|_| world.alone("load")).expect("no deadlock");
        drop(loads);
        thread.join().expect("no panic");
        assert!(interlock.dump().owners.is_empty());
        outcomes.note(world.story());
    });
}
