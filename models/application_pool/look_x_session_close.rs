//! A session is closed while a get that waits for its process has stepped aside, to look once more before it
//! sleeps.
//!
//! Guards the look that follows `Mutex::step_aside` in `section::block`: without it, the session that was handed over
//! meanwhile has woken nobody, and the get sleeps for ever beside it. Natively nearly each wait begins so;
//! in the other models none does, and the get sleeps at once. Asserted: the get is served or
//! has timed out, and the process is idle in the end.

use crate::models::application_pool::waiter_x_time_out::served_or_timed_out;
use crate::models::rig::*;
use crate::sync::aside;

#[test]
fn look_x_session_close() {
    explore("look_x_session_close", &["served"], |outcomes| {
        aside::allow();
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || drop(pool.get(&app("a")).expect("served")));
        session.close();
        getter.join().expect("no panic");
        outcomes.note("served");
        assert_eq!(rig.counts(), (0, 1));
    });
}

/// Its time is up meanwhile, or that and the close meet.
#[test]
fn look_x_time_out() {
    explore("look_x_time_out", &["served", "timed out"], |outcomes| {
        aside::allow();
        let rig = Rig::new(|b| b.max(1));
        served_or_timed_out(&rig, outcomes);
    });
}
