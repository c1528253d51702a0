//! User code that the pool calls makes a get, which would have to wait.
//!
//! Guards that such a get waits for no outcome (`Inner::wait`). The thread of the call has evicted the process, and
//! starts the spawn in its place only after the call. If the get waited for that place, both would wait for ever.
//! Asserted: the get in the call is refused, and the one that evicted the process is served.

use crate::application_pool::GetError;
use crate::models::rig::*;
use std::sync::Mutex;

#[test]
fn get_in_shut_down_x_eviction() {
    explore(Model("get_in_shut_down_x_eviction", 16), &["refused"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("a"));
        let pool = Mutex::new(Some(rig.pool.clone()));
        let answer = std::sync::Arc::new(Mutex::new(None));
        let theirs = answer.clone();
        rig.on_call(move |call| {
            if call == Call::ShutDown
                && let Some(pool) = pool.lock().expect("no panic").take()
            {
                let got = pool.get(&app("c")).map(drop);
                *theirs.lock().expect("no panic") = Some(got);
            }
        });
        drop(rig.pool.get(&app("b")).expect("a session"));
        let answer = answer.lock().expect("no panic").take();
        assert!(matches!(answer, Some(Err(GetError::InCallback))), "{answer:?}");
        outcomes.note("refused");
    });
}
