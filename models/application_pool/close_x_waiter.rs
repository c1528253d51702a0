//! The pool is closed while a get waits, and while the session it waits for is closed.
//!
//! Guards `State::close`: each waiter is told, once (erratum E32). Without it the get sleeps for ever
//! in a pool that nobody can wake. Asserted: the get is served or told that the pool is closed, and
//! the pool ends with nothing left and the process shut down once. Foreign calls do not re-enter the
//! pool: with that, loom is not through after a minute.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn close_x_waiter() {
    let ways = ["served", "closed"];
    explore("close_x_waiter", &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).map(drop));
        let pool = rig.pool.clone();
        let closer = spawn(move || pool.close());
        session.close();
        outcomes.note(match getter.join().expect("no panic") {
            Ok(()) => "served",
            Err(GetError::Closed) => "closed",
            Err(other) => panic!("{other}"),
        });
        closer.join().expect("no panic");
        let counts = rig.pool.counts();
        assert_eq!((counts.count, counts.draining, counts.waiting), (0, 0, 0));
        assert_eq!(rig.spawner.shut_down().len(), 1);
    });
}
