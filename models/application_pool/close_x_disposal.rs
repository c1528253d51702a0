//! The pool is closed while a process that has just left it is shut down elsewhere (erratum E32).
//!
//! Guards `disposing` in `State::has_come`, and that who carried a disposal out tells of it (`Effects::run`).
//! Without the first, a closed pool is over while a process of it is still being shut down, though it is in no
//! list any more: whoever waits for the end, to exit, leaves that process behind. Without the second, he waits
//! for ever, for there is nobody else to tell him. Asserted: where `wait_closed` has come back, the process has
//! been shut down, once, whoever did it.

use crate::models::rig::*;

#[test]
fn close_x_disposal() {
    let expected = ["closed first", "being shut down", "shut down before"];
    explore_small("close_x_disposal", &expected, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        // Rung at the end of `shut_down`: the pool's book-keeping is long done by then.
        let ended = rig.bell(Call::ShutDown);
        let app = app("a").with_min_processes(0);
        rig.idle(&app);
        let identifier = rig.pool.snapshot().groups[0].processes[0].identifier;
        let pool = rig.pool.clone();
        let detaching = spawn(move || pool.detach(identifier));
        rig.pool.close();
        let before = ended.rung();
        assert!(rig.pool.wait_closed(DRAIN), "nothing is left of a closed pool");
        assert_eq!(ended.rung(), 1, "over, and a process is still being shut down");
        outcomes.note(match (detaching.join().expect("no panic"), before) {
            (false, _) => "closed first",
            (true, 0) => "being shut down",
            (true, _) => "shut down before",
        });
        assert_eq!(rig.end(), [1]);
    });
}
