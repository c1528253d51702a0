//! More executions than loom can run, each with random operations. Shuttle only.
//!
//! Guards against what models of two or three actors cannot show: a waiter that sleeps for ever because a third actor
//! came between. Four to six executions nest, load, unload, permit, have children, give up, and come and go.
//! Asserted: PROP-ILK-USE-UNDER-SHARE in every body, INV-ILK-SEES-ONE-WORLD around each, and every invariant after
//! every critical section. Every execution ends.

use crate::models::interlock::rig::*;
use crate::sync::explore::explore_large;
use shuttle::rand::{Rng, thread_rng};

#[test]
fn interlock_crowd() {
    explore_large("interlock_crowd", &["4 ended", "5 ended", "6 ended"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let size = thread_rng().gen_range(4..7);
        let owners: Vec<_> = (0..size)
            .map(|_| {
                let (interlock, world) = (interlock.clone(), world.clone());
                spawn(move || {
                    for _ in 0..3 {
                        let what = thread_rng().gen_range(0..8);
                        one_thing(&interlock, &world, what);
                    }
                })
            })
            .collect();
        for owner in owners {
            owner.join().expect("no panic");
        }
        assert!(interlock.dump().owners.is_empty());
        outcomes.note(format!("{size} ended"));
    });
}

fn one_thing(interlock: &Interlock, world: &World, what: u32) {
    match what {
        0 => interlock.load(|_| world.alone("load")).expect("no deadlock"),
        1 => interlock.unload(|_| world.alone("unload")).expect("no deadlock"),
        2 => interlock.run(|r| {
            let before = interlock.generation();
            world.runs();
            r.load(|_| world.alone("load")).expect("no deadlock");
            world.runs();
            assert_eq!(
                interlock.generation(),
                before,
                "unloaded under a share (INV-ILK-SEES-ONE-WORLD)"
            );
        }),
        3 => interlock.run(|r| r.unload(|_| world.alone("unload")).expect("no deadlock")),
        4 => interlock.run(|r| {
            let before = interlock.generation();
            let inner = || interlock.run(|r| r.load(|_| world.alone("load")));
            r.permit_loads(inner).expect("the only share").expect("no deadlock");
            world.runs();
            assert_eq!(
                interlock.generation(),
                before,
                "unloaded in a permit block (INV-ILK-NO-PERMIT-IN-UNLOAD)"
            );
        }),
        5 => interlock.run(|r| {
            let (child, theirs) = (r.child(), world.clone());
            let thread = spawn(move || child.run(|r| r.load(|_| theirs.alone("load"))));
            let joined = r.permit_loads(|| thread.join().expect("no panic"));
            joined.expect("the only share").expect("no deadlock");
        }),
        6 => {
            // A load that waits and is given up.
            let mut running = interlock.enter();
            {
                let mut load = Box::pin(running.load_async());
                let _ = poll_once(load.as_mut());
            }
            running.load(|_| world.alone("load")).expect("no deadlock");
            world.runs();
        }
        _ => interlock.run(|_| interlock.run(|_| world.runs())),
    }
}
