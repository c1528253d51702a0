//! The pool is closed while a get waits, and while the session that it waits for is closed.
//!
//! Guards `State::close`: it ends each wait, once (erratum E32). Without that, the get sleeps for ever in a closed
//! pool. Asserted: the get is served or fails with `Closed`. The pool ends empty, and the process is shut down once.
//! User code does not re-enter the pool: loom would need more than a minute.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn close_x_waiter() {
    let ways = ["served", "closed"];
    explore(Model("close_x_waiter", 6_539), &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).map(drop));
        let pool = rig.pool.clone();
        let closer = spawn(move || pool.close());
        drop(session);
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
