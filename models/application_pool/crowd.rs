//! More threads than loom can run, in a pool that is too small for them. Shuttle only.
//!
//! Four clients ask for two groups; one of them drops a future while it waits. Meanwhile the cleaner passes,
//! processes are detached, the limits change, and a spawn fails. Guards against what models of two or three actors
//! cannot show: a waiter that sleeps for ever because a third actor came between. Guards too that
//! `Waiters::enqueue_thread` gives every thread a condition variable of its own: on a shared one, another sleeper may
//! take the wake-up. Asserted: every get ends (PROP-EVERY-GET-ENDS), and a closed pool ends with every process shut
//! down once.

use crate::application_pool::{GetError, Identifier};
use crate::models::rig::*;
use crate::models::tool::explore::explore_large;

#[test]
fn crowd() {
    explore_large("crowd", &["ended"], |outcomes| {
        let rig = Rig::new(|b| b.max(2).back_off(BACK_OFF, BACK_OFF))
            .reentrant()
            .with_reentrant_observer();
        let clients: Vec<_> = (0..4).map(|n| client(&rig, n)).collect();
        let (pool, clock) = (rig.pool.clone(), rig.clock.clone());
        let operator = spawn(move || {
            for step in 1..4 {
                pool.detach(Identifier::from_u64(step));
                pool.set_max(1 + step as usize % 2).expect("not zero");
                clock.advance(IDLE);
                pool.clean();
            }
        });
        for client in clients {
            client.join().expect("no panic");
        }
        operator.join().expect("no panic");
        let counts = rig.pool.counts();
        assert_eq!((counts.active, counts.waiting, counts.draining), (0, 0, 0));
        rig.end();
        outcomes.note("ended");
    });
}

const BACK_OFF: std::time::Duration = std::time::Duration::from_secs(1);

fn client(rig: &Rig, n: usize) -> crate::kernel::sync::thread::JoinHandle<()> {
    let (pool, spawner, reentry) = (rig.pool.clone(), rig.spawner.clone(), rig.reentry.clone());
    spawn(move || {
        let app = app(if n < 2 { "a" } else { "b" });
        if n == 3 {
            let mut given_up = Box::pin(pool.get_async(&app));
            let _ = reentry.poll_once(given_up.as_mut());
        }
        if n == 1 {
            spawner.next(Spawn::fail("one of them"));
        }
        for _ in 0..2 {
            match pool.get(&app) {
                Ok(session) => drop(session),
                Err(GetError::Spawn(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
    })
}
