//! One execution loads and another unloads.
//!
//! Guards the entries' accept sets: a waiting unload lets loads go first, but a waiting load does not let unloads go
//! first. If a waiting unload accepted no load, both would wait for each other. Asserted: both end, each alone. While
//! both have a share the load comes first, whichever asked first.

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
        // The attempt only shows whether the load has to wait.
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
