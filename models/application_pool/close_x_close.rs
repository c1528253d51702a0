//! The pool is closed twice at once, with a session open (errata E13, E32).
//!
//! Guards that the process drains through both closes, and that the end of its session shuts it down (`end_drain` in
//! `State::close_session`). Without it, a closed pool never ends. The early return of the second `State::close` only
//! saves work: a second pass would find each list empty. Asserted: both closes return, in either order, and the
//! process is shut down once, after its session.

use crate::models::rig::*;

#[test]
fn close_x_close() {
    explore(Model("close_x_close", 2_126), &["first", "second"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant().with_reentrant_observer();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let other = spawn(move || {
            let second = pool.snapshot().closed;
            pool.close();
            second
        });
        rig.pool.close();
        drop(session);
        let second = other.join().expect("no panic");
        outcomes.note(if second { "second" } else { "first" });
        assert_eq!(rig.end(), [1]);
    });
}
