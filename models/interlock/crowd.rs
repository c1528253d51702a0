//! More executions than loom can run, each with random operations. Shuttle only.
//!
//! Guards against what models of two or three actors cannot show: a waiter that sleeps for ever because a third actor
//! came between. Four to six executions nest, load, unload, permit, give up, and come and go. Asserted:
//! PROP-ILK-USE-UNDER-SHARE in every body, INV-ILK-ONE-GENERATION around each, and every invariant after every
//! critical section. Every execution ends.

use crate::models::interlock::rig::*;
use crate::models::tool::explore::explore_large;
use shuttle::rand::{Rng, thread_rng};

#[test]
fn interlock_crowd() {
    explore_large("interlock_crowd", &["4 ended", "5 ended", "6 ended"], |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let size = thread_rng().gen_range(4..7);
        let owners: Vec<_> = (0..size)
            .map(|_| {
                let (interlock, code) = (interlock.clone(), code.clone());
                spawn(move || {
                    for _ in 0..3 {
                        let what = thread_rng().gen_range(0..8);
                        one_thing(&interlock, &code, what).expect("no limit, and no deadlock");
                    }
                })
            })
            .collect();
        for owner in owners {
            owner.join().expect("no panic");
        }
        assert_free(&interlock, &code);
        outcomes.note(format!("{size} ended"));
    });
}

fn one_thing(interlock: &Interlock, code: &LoadedCode, what: u32) -> Result<(), AcquireError> {
    let load = |r: &mut Running<'_>| r.load(|_| code.alone("load"));
    match what {
        0 => interlock.unload(|_| code.alone("unload")),
        1 => interlock.run(|r| unload(r, || code.alone("unload"))),
        _ => interlock.run(|running| {
            let before = interlock.generation();
            match what {
                2 => load(running)?,
                3 => running.load(|_| interlock.run(|r| r.load(|_| code.note("nested"))))???,
                4 => running.permit_loads(|| interlock.run(load))???,
                5 => {
                    let (theirs, there) = (interlock.clone(), code.clone());
                    let thread = spawn(move || theirs.run(|r| r.load(|_| there.alone("joined"))));
                    running.permit_loads(|| thread.join().expect("no panic"))???;
                }
                6 => {
                    let mut waits = Box::pin(running.load_async(async |_| code.alone("load")));
                    let _ = poll_once(waits.as_mut());
                    drop(waits);
                    load(running)?;
                }
                _ => interlock.run(|_| code.runs())?,
            }
            code.runs();
            let after = interlock.generation();
            assert_eq!(before, after, "unloaded under a share, or in a permit block");
            Ok(())
        })?,
    }
}
