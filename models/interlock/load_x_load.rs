//! Owners that have a share want to load, and meet afterwards.
//!
//! Guards the drain in `State::release`: an owner that has loaded first lets the other load, which gave its share up
//! for that. Without it, the first runs on and waits for the second, which waits for its share. Asserted: both load,
//! each alone, in either order, and both get to the meeting (PROP-ILK-PROGRAMS-END).

use crate::models::interlock::rig::*;

#[test]
fn interlock_load_x_load() {
    explore("interlock_load_x_load", &["a, b", "b, a"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (owner(&interlock), owner(&interlock));
        let (a_has, b_has) = (Bell::new(), Bell::new());
        let theirs = (world.clone(), a_has.clone(), b_has.clone());
        let thread = spawn(move || {
            let (world, a_has, b_has) = theirs;
            b.load(|_| world.alone("b")).expect("no limit");
            world.runs();
            b_has.ring();
            a_has.wait(1);
        });
        a.load(|_| world.alone("a")).expect("no limit");
        world.runs();
        a_has.ring();
        b_has.wait(1);
        thread.join().expect("no panic");
        outcomes.note(world.story());
    });
}
