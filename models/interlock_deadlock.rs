//! The example of the text as it stands: an execution keeps its share and waits for a child, which
//! waits to load.
//!
//! Guards `State::is_deadlocked`, at the end of every critical section that may close the circle: the
//! child's request, or the parent's declaration. Without it, both wait for ever. Asserted: the child is
//! told, whoever closed the circle, and nobody is told whose wait would have ended.

use super::interlock_rig::*;

#[test]
fn interlock_deadlock() {
    let expected = ["closed by the child", "closed by the parent"];
    explore("interlock_deadlock", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let parent = interlock.enter();
        let (child, told) = (parent.child(), Bell::new());
        let theirs = (world.clone(), told.clone());
        let thread = spawn(move || {
            let (world, told) = theirs;
            let loaded = child.run(|r| r.load(|_| world.alone("load")));
            told.ring();
            match loaded {
                Err(AcquireError::Deadlock(deadlock)) => assert_eq!(deadlock.cycle().len(), 2),
                other => panic!("a deadlock, not {other:?}"),
            }
        });
        let waits = in_state(&interlock, OwnerState::WaitingToLoad) == 1;
        parent.waiting(|| told.wait(1));
        world.runs();
        thread.join().expect("no panic");
        outcomes.note(if waits { "closed by the parent" } else { "closed by the child" });
    });
}

/// A child that ends, and an unload that comes just then: the parent's wait is about to end, and the
/// unload must not be told of a deadlock. Guards the count of living children.
#[test]
fn interlock_no_deadlock() {
    explore("interlock_no_deadlock", &["run, unload"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let parent = interlock.enter();
        let (child, there) = (parent.child(), world.clone());
        let thread = spawn(move || child.run(|_| there.note("run")));
        let (theirs, there) = (interlock.clone(), world.clone());
        let unloader =
            spawn(move || theirs.unload(|_| there.alone("unload")).expect("no deadlock"));
        parent.waiting(|| thread.join().expect("no panic"));
        drop(parent);
        unloader.join().expect("no panic");
        outcomes.note(world.story());
    });
}
