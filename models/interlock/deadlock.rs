//! The deadlock of the Rails guide: an execution keeps its share and waits for a child, which waits to load.
//!
//! Guards the search for a cycle when a wait begins, the child's or the parent's. Without it, both wait for ever.
//! Asserted: the owner that closes the cycle gets the error, and the other goes on. A wait that would have ended gets
//! no error.

use crate::models::interlock::rig::*;
use crate::models::rig::block_on;

#[test]
fn interlock_deadlock() {
    let expected = ["closed by the child", "closed by the parent"];
    explore("interlock_deadlock", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let parent = interlock.enter();
        let (child, ended) = (parent.child(), Bell::new());
        let theirs = (world.clone(), ended.clone());
        let thread = spawn(move || {
            let (world, ended) = theirs;
            let loaded = child.run(|r| r.load(|_| world.alone("load")));
            ended.ring();
            match loaded {
                Ok(()) => "closed by the parent",
                Err(AcquireError::Deadlock(deadlock)) => {
                    assert_eq!(deadlock.cycle().len(), 2);
                    "closed by the child"
                }
                Err(other) => panic!("a deadlock, not {other:?}"),
            }
        });
        let waited = parent.waiting(|| ended.wait(1));
        world.runs();
        drop(parent);
        let closed = thread.join().expect("no panic");
        match waited {
            Ok(()) => assert_eq!(closed, "closed by the child"),
            Err(AcquireError::Deadlock(_)) => assert_eq!(closed, "closed by the parent"),
            Err(other) => panic!("a deadlock, not {other:?}"),
        }
        outcomes.note(closed);
    });
}

/// A child has waited to load and was let: from then on its parent may wait for it. Guards the count of the waiting
/// children.
#[test]
fn interlock_no_deadlock() {
    explore("interlock_no_deadlock", &["load, run"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let mut parent = interlock.enter();
        let (child, loaded) = (parent.child(), Bell::new());
        let theirs = (world.clone(), loaded.clone());
        let thread = spawn(move || {
            let (world, loaded) = theirs;
            child.run(|r| {
                r.load(|_| world.alone("load")).expect("no deadlock");
                loaded.ring();
                world.note("run");
            });
        });
        parent.permit_loads(|| loaded.wait(1)).expect("the only share");
        parent.waiting(|| thread.join().expect("no panic")).expect("no deadlock");
        outcomes.note(world.story());
    });
}

/// A parent waits for a child that has loaded and lets a stranger go first, which waits for the parent's share. The
/// parent's own load was dropped without letting others have their turn.
///
/// Guards that a draining child counts as waiting for its parent. Asserted: the parent gets the error, wherever the
/// child's thread is by then, and every execution goes on.
#[test]
fn interlock_deadlock_x_draining_child() {
    explore("interlock_deadlock_x_draining_child", &["reported"], |outcomes| {
        let interlock = Interlock::new();
        let (mut parent, mut stranger) = (interlock.enter(), interlock.enter());
        let mut child = parent.child().enter();
        let mut loads = Box::pin(parent.load_async());
        let mut others = Box::pin(stranger.load_async());
        assert!(poll_once(loads.as_mut()).is_pending());
        assert!(poll_once(others.as_mut()).is_pending());
        let thread = spawn(move || child.load(|_| ()).expect("it has loaded before"));
        drop(block_on(loads).expect("no deadlock"));
        match parent.waiting(|| ()) {
            Err(AcquireError::Deadlock(deadlock)) => {
                let [_, child, stranger] = deadlock.cycle()[..] else { panic!("{deadlock}") };
                let state = |id| deadlock.dump().owner(id).map(|owner| owner.state);
                assert_eq!(state(child), Some(OwnerState::Draining));
                assert_eq!(state(stranger), Some(OwnerState::WaitingToLoad));
            }
            other => panic!("a deadlock, not {other:?}"),
        }
        drop(parent);
        drop(block_on(others).expect("no deadlock"));
        thread.join().expect("no panic");
        outcomes.note("reported");
    });
}
