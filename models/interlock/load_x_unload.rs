//! One execution loads and another unloads.
//!
//! Guards the entries' accept sets: a waiting unload lets loads go first, a waiting load does not let
//! unloads. With a waiting unload that accepts no load both would wait for each other. Asserted: both
//! come to their end, each alone; while both have a share the load always comes first, whoever asked
//! first.

use crate::models::interlock::rig::*;

#[test]
fn interlock_load_x_unload() {
    let expected = ["load, unload; it waited", "load, unload; it did not wait"];
    explore("interlock_load_x_unload", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let theirs = world.clone();
        let thread = spawn(move || {
            b.unload(|_| theirs.alone("unload")).expect("no deadlock");
            theirs.runs();
        });
        // The same, but for what is seen.
        let waited = match a.try_load(|_| world.alone("load")) {
            Ok(()) => "it did not wait",
            Err(AcquireError::WouldBlock) => {
                a.load(|_| world.alone("load")).expect("no deadlock");
                "it waited"
            }
            Err(error) => panic!("{error}"),
        };
        world.runs();
        drop(a);
        thread.join().expect("no panic");
        assert_eq!(interlock.generation(), 1);
        outcomes.note(format!("{}; {waited}", world.story()));
    });
}
