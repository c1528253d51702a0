//! Two executions that both have a share both want to load, and meet afterwards.
//!
//! Guards the drain in `State::release`: who has loaded lets the other, who gave up its share to load, go
//! first, before it runs on. Without that, the first runs on, waits for the second, and the second waits for
//! its share. Asserted: both load, each alone, and both get to the meeting (PROP-ILK-PROGRAMS-END); the order
//! is either.

use crate::models::interlock::rig::*;

#[test]
fn interlock_load_x_load() {
    explore("interlock_load_x_load", &["a, b", "b, a"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let (a_has, b_has) = (Bell::new(), Bell::new());
        let theirs = (world.clone(), a_has.clone(), b_has.clone());
        let thread = spawn(move || {
            let (world, a_has, b_has) = theirs;
            b.load(|_| world.alone("b")).expect("no deadlock");
            world.runs();
            b_has.ring();
            a_has.wait(1);
        });
        a.load(|_| world.alone("a")).expect("no deadlock");
        world.runs();
        a_has.ring();
        b_has.wait(1);
        thread.join().expect("no panic");
        outcomes.note(world.story());
    });
}
