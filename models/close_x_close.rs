//! The pool is closed twice at once, with a session open (erratum E32).
//!
//! Guards that `State::close` is carried out once. Without it, the second detaches what the first has
//! taken out. Asserted: both come back, and the process is shut down once, after its session.

use super::rig::*;

#[test]
fn close_x_close() {
    explore_small("close_x_close", &["closed"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let other = spawn(move || pool.close());
        rig.pool.close();
        drop(session);
        other.join().expect("no panic");
        outcomes.note("closed");
        assert_eq!(rig.end(), [1]);
    });
}
