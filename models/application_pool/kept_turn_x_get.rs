//! Two gets meet a crashed process, and only one get may wait (erratum E38).
//!
//! Guards in `State::wait` that the queue's bound does not apply to a get that looks for a process again. Without that,
//! a get that was admitted is refused because of a crash. Asserted: only a newcomer is refused (PROP-KEEPS-TURN).

use crate::application_pool::GetError;
use crate::kernel::sync::me;
use crate::models::rig::*;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

#[test]
fn kept_turn_x_get() {
    explore(
        Model("kept_turn_x_get", 6_344),
        &["both are served", "the newcomer is refused"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1));
            let one = app("a").with_max_queue(1);
            rig.idle(&one);
            rig.spawner.processes()[0].kill();
            // The threads that have been given a process.
            let admitted = Arc::new(Mutex::new(HashSet::new()));
            let connecting = admitted.clone();
            rig.on_call(move |call| {
                if call == Call::Connect {
                    connecting.lock().expect("no panic").insert(me());
                }
            });
            let get = move |pool: &crate::ApplicationPool<_>| match pool.get(&one) {
                Ok(_) => true,
                Err(GetError::QueueFull { .. }) => {
                    let admitted = admitted.lock().expect("no panic");
                    assert!(!admitted.contains(&me()), "a get that was admitted is refused");
                    false
                }
                Err(error) => panic!("{error}"),
            };
            let (pool, theirs) = (rig.pool.clone(), get.clone());
            let getter = spawn(move || theirs(&pool));
            let served = [get(&rig.pool), getter.join().expect("no panic")];
            let both = served == [true, true];
            outcomes.note(if both { "both are served" } else { "the newcomer is refused" });
        },
    );
}

/// Two gets meet a crashed process, and either is connected to it first.
///
/// Guards that one section detaches the process and looks for another (`State::checkout_again`). Between two sections,
/// the new process could be granted to the get that came later. Asserted: the get that was given the crashed process is
/// served first.
#[test]
fn refused_get_x_get() {
    explore(
        Model("refused_get_x_get", 9_000),
        &["this one first", "the other first"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1));
            rig.idle(&app("a"));
            rig.spawner.processes()[0].kill();
            // The threads that connect, in order.
            let order = Arc::new(Mutex::new(Vec::new()));
            let connecting = order.clone();
            rig.on_call(move |call| {
                if call == Call::Connect {
                    connecting.lock().expect("no panic").push(me());
                }
            });
            let pool = rig.pool.clone();
            let getter = spawn(move || drop(pool.get(&app("a")).expect("a session")));
            drop(rig.pool.get(&app("a")).expect("a session"));
            getter.join().expect("no panic");
            let order = order.lock().expect("no panic").clone();
            assert_eq!(order.len(), 3, "only the first is refused");
            assert_eq!(order[0], order[1], "a later get is served before the one that was refused");
            outcomes.note(if order[0] == me() { "this one first" } else { "the other first" });
        },
    );
}
