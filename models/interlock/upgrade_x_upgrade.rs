//! Two executions that have a share both want to unload (defect `rails-upgrade-deadlock` of Rails).
//!
//! Guards that `State::acquire` gives the share up. If an owner kept its share while it waits, each would wait for
//! the other. Asserted: both unload, each alone, in either order, and each unload counts.

use crate::models::interlock::rig::*;

#[test]
fn interlock_upgrade_x_upgrade() {
    explore("interlock_upgrade_x_upgrade", &["a, b", "b, a"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let theirs = world.clone();
        let thread = spawn(move || {
            b.unload(|_| theirs.alone("b")).expect("no deadlock");
            theirs.runs();
        });
        a.unload(|_| world.alone("a")).expect("no deadlock");
        world.runs();
        drop(a);
        thread.join().expect("no panic");
        assert_eq!(interlock.generation(), 2);
        outcomes.note(world.story());
    });
}

/// Guards the second look at the generation in `unload_once`: without it, one change is unloaded twice
/// (PROP-ILK-RELOAD-ONCE).
#[test]
fn interlock_one_change_x_two_executions() {
    explore("interlock_one_change_x_two_executions", &["a", "b"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let theirs = world.clone();
        let thread = spawn(move || {
            b.unload_once(0, |_| theirs.alone("b")).expect("no deadlock");
            theirs.runs();
        });
        a.unload_once(0, |_| world.alone("a")).expect("no deadlock");
        world.runs();
        drop(a);
        thread.join().expect("no panic");
        assert_eq!(interlock.generation(), 1);
        outcomes.note(world.story());
    });
}
