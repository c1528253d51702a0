//! A session is closed while its process is detached, drains, and passes its drain deadline.
//!
//! Guards the two looks at `Entry::gone` in `session_has_been_closed` and `State::end_session` (erratum E15). Without
//! the look under the lock, a close that comes after the end of the drain counts down a removed process. That changes a
//! vacant slab entry, or the process that has the key now. Asserted: a close finds its process in each of the possible
//! ways, and the process is shut down exactly once.

use crate::models::rig::*;

#[test]
fn session_close_x_detach() {
    let ways = ["Live", "Draining", "GoneBeforeLock", "GoneUnderLock"];
    explore(Model("session_close_x_detach", 1_143), &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let session = rig.session(&app("a"));
        let identifier = crate::Session::identifier(&session);
        let closer = spawn(move || session.end(Ending::Closed));
        rig.pool.detach(identifier);
        rig.clock.advance(DRAIN);
        rig.pool.clean();
        let found: Found = closer.join().expect("no panic");
        outcomes.note(format!("{found:?}"));
        assert_eq!(rig.pool.counts().draining, 0);
        assert_eq!(rig.spawner.shut_down().len(), 1);
    });
}

/// The whole group is detached by name, and forgotten once it is unused.
///
/// Guards `draining` in `State::forget_if_unused`: a group stays while a process of it drains. Without it, the close
/// looks for a group that is gone, or finds another one under its key (INV-DRAINING). Asserted: the process is shut
/// down once, and the group is gone after the close.
#[test]
fn session_close_x_detach_group() {
    explore(Model("session_close_x_detach_group", 29), &["Draining", "Live"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let session = rig.session(&app("a"));
        let closer = spawn(move || session.end(Ending::Closed));
        assert!(rig.pool.detach_group("/a"));
        let found: Found = closer.join().expect("no panic");
        outcomes.note(format!("{found:?}"));
        assert!(rig.pool.snapshot().groups.is_empty(), "an unused group is forgotten");
        assert_eq!(rig.spawner.shut_down().len(), 1);
    });
}

/// The slab key is in use again when the session is closed: the stale session must not touch the new process.
#[test]
fn stale_session_x_reused_key() {
    let ways = ["Draining", "GoneBeforeLock", "GoneUnderLock", "Live"];
    explore(Model("stale_session_x_reused_key", 6_354), &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let session = rig.session(&app("a"));
        let identifier = crate::Session::identifier(&session);
        let closer = spawn(move || session.end(Ending::Closed));
        rig.pool.detach(identifier);
        rig.clock.advance(DRAIN);
        rig.pool.clean();
        let second = rig.session(&app("a"));
        let found: Found = closer.join().expect("no panic");
        outcomes.note(format!("{found:?}"));
        assert_eq!(second.pid(), 2);
        assert_eq!(rig.counts(), (1, 1), "the new process keeps its session");
    });
}
