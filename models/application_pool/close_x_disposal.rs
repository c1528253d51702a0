//! The pool is closed while another thread shuts down a process that has just left it (erratum E32).
//!
//! Guards `disposing` in `State::has_come`, and that `Effects::run` reports the end of a disposal. Without the first,
//! `wait_closed` returns during the shut-down, because the process is in no list any more: a caller that then exits
//! leaves it behind. Without the second, that caller waits for ever. Asserted: when `wait_closed` returns, the
//! process has been shut down once, by either thread.

use crate::models::rig::*;

#[test]
fn close_x_disposal() {
    let expected = ["closed first", "being shut down", "shut down before"];
    explore_small(Model("close_x_disposal", 165), &expected, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        // Counts at the end of `shut_down`, long after the pool's book-keeping.
        let ended = rig.counter_of(Call::ShutDown);
        let app = app("a").with_min_processes(0);
        rig.idle(&app);
        let identifier = rig.pool.snapshot().groups[0].processes[0].identifier;
        let pool = rig.pool.clone();
        let detaching = spawn(move || pool.detach(identifier));
        rig.pool.close();
        let before = ended.count();
        assert!(rig.pool.wait_closed(DRAIN), "a closed pool becomes empty");
        assert_eq!(ended.count(), 1, "the pool has ended while a process is being shut down");
        outcomes.note(match (detaching.join().expect("no panic"), before) {
            (false, _) => "closed first",
            (true, 0) => "being shut down",
            (true, _) => "shut down before",
        });
        assert_eq!(rig.end(), [1]);
    });
}
