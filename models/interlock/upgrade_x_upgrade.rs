//! Two executions that have a share both want to unload (defect `rails-upgrade-deadlock` of Rails), and meet
//! afterwards.
//!
//! Guards that `State::acquire` gives the share up. If an owner kept its share while it waits, each would wait for
//! the other. Guards also the drain after an unload, without which the first runs on and waits for the second.
//! Asserted: both unload, each alone, in either order, and each unload counts.

use crate::models::interlock::rig::*;

#[test]
fn interlock_upgrade_x_upgrade() {
    explore("interlock_upgrade_x_upgrade", &["a, b", "b, a"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (owner(&interlock), owner(&interlock));
        let (a_has, b_has) = (Bell::new(), Bell::new());
        let theirs = (world.clone(), a_has.clone(), b_has.clone());
        let thread = spawn(move || {
            let (world, a_has, b_has) = theirs;
            block_on(unload(&mut b, || world.alone("b")));
            world.runs();
            b_has.ring();
            a_has.wait(1);
        });
        block_on(unload(&mut a, || world.alone("a")));
        world.runs();
        a_has.ring();
        b_has.wait(1);
        thread.join().expect("no panic");
        assert_eq!(interlock.generation(), 2);
        outcomes.note(world.story());
    });
}
