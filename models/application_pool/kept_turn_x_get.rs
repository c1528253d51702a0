//! Two gets meet a crashed process, and only one get may wait (erratum E38).
//!
//! Guards in `State::wait` that the queue's bound does not apply to a get that looks for a process again. Without that,
//! a get that was admitted is refused because of a crash. Asserted: only a newcomer is refused (PROP-KEEPS-TURN).

use crate::application_pool::GetError;
use crate::models::rig::*;
use crate::sync::me;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

#[test]
fn kept_turn_x_get() {
    explore("kept_turn_x_get", &["both are served", "the newcomer is refused"], |outcomes| {
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
    });
}
