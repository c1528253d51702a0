//! Executions enter and leave through the word, while somebody who needs the mutex sets its bit.
//!
//! Guards the count that is carried from the word into the machine and back (`slow_down`, `speed_up`):
//! without it, an execution that entered before the bit is not waited for, or one that leaves after it
//! is not missed. Asserted: who unloads is alone; the entering execution comes before or after it.
//!
//! And where who unloads without a share begins (`State::hold`): with one it would not be alone, by its own word
//! (`INV-ILK-FRAMES`).

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

/// The bit goes as soon as nobody needs it, while another leaves and enters. Guards the same in the
/// other direction: who entered in the slow period leaves through the word.
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
