//! The example of the text as it stands: an execution keeps its share and waits for a child, which
//! waits to load.
//!
//! Guards what looks for the circle when a wait begins, the child's or the parent's. Without it, both
//! wait for ever. Asserted: whoever closes the circle is told, the other goes on, and nobody is told whose
//! wait would have ended.

use crate::models::interlock::rig::*;
use crate::models::rig::block_on;

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
                Ok(()) => "closed by the parent",
                Err(AcquireError::Deadlock(deadlock)) => {
                    assert_eq!(deadlock.cycle().len(), 2);
                    "closed by the child"
                }
                Err(other) => panic!("a deadlock, not {other:?}"),
            }
        });
        let waited = parent.waiting(|| told.wait(1));
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

/// A child that has waited to load, and was let: its parent may wait for it from then on. Guards the
/// count of the children that wait.
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

/// A child has loaded and lets a stranger go first, who waits for the parent's share: the parent, whose own section
/// was dropped without a turn for anybody, would wait for the child. Guards that who drains counts as one who waits
/// for its parent. Asserted: the parent is told, wherever the child's thread is by then, and all go on.
#[test]
fn interlock_deadlock_x_draining_child() {
    explore("interlock_deadlock_x_draining_child", &["told"], |outcomes| {
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
        outcomes.note("told");
    });
}
