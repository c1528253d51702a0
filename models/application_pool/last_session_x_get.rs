//! A process is given its last session (`max_requests`) while others need its place (erratum E36).
//!
//! Guards that `State::open_session` detaches the process, and that its callers grant the place that this frees.
//! Without that, a get waits until the last session ends, and an event stream may never end. Asserted: the get is
//! served while the session is open, and the minimum is refilled (PROP-LAST-SESSION, PROP-MINIMUM-REFILLED).

use crate::models::rig::*;

#[test]
fn last_session_x_get() {
    explore(
        Model("last_session_x_get", 273),
        &["beside the session", "after the session"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1));
            let once = app("a").with_max_requests(1);
            let session = rig.session(&once);
            assert_eq!(rig.counts(), (0, 0), "it drains");
            let pool = rig.pool.clone();
            let getter = spawn(move || {
                let session = pool.get(&once).expect("a session");
                (session.pid(), pool.counts().draining)
            });
            drop(session);
            let (pid, draining) = getter.join().expect("no panic");
            assert_eq!(pid, 2);
            outcomes.note(if draining == 2 { "beside the session" } else { "after the session" });
            assert_eq!(rig.end(), [1, 2]);
        },
    );
}

/// The session is still open when the get comes, and stays open until the get is served.
#[test]
fn endless_session_x_get() {
    explore(Model("endless_session_x_get", 5), &["2 drain"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let once = app("a").with_max_requests(1);
        let endless = rig.session(&once);
        let second = rig.pool.get(&once).expect("a session");
        assert_eq!((endless.pid(), second.pid()), (1, 2));
        // Each has its last session, and holds no place.
        outcomes.note(format!("{} drain", rig.pool.counts().draining));
        drop((second, endless));
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// A get that does not wait is given the last session of an idle process.
#[test]
fn last_session_x_minimum() {
    explore(Model("last_session_x_minimum", 175), &["at work", "refilled"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let spawned = rig.counter_of(Call::Spawn);
        let twice = app("a").with_max_requests(2).with_min_processes(1);
        rig.idle(&twice);
        let last = rig.pool.try_get(&twice).expect("an idle process");
        outcomes.note(if rig.pool.counts().spawning > 0 { "at work" } else { "refilled" });
        spawned.wait(2);
        drop(last);
    });
}
