//! A session is closed while its process is detached, drains, and runs out of time.
//!
//! Guards the two looks at `Entry::gone` in `session_has_been_closed` (erratum E15) and the weak
//! reference of the session. Without the look under the lock, a close that was overtaken by the end
//! of the drain counts down a process that is no more: of a vacant slab entry, or worse, of the
//! process that has its key now. Asserted: each of the ways a close can find its process is reached,
//! and the process is shut down exactly once.

use crate::models::rig::*;

#[test]
fn session_close_x_detach() {
    let ways = ["Live", "Draining", "GoneBeforeLock", "GoneUnderLock", "Null"];
    explore("session_close_x_detach", &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let mut session = rig.session(&app("a"));
        let identifier = session.identifier();
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

/// The whole group is detached by name, and forgotten as soon as nothing needs it.
///
/// Guards `draining` in `State::forget_if_unused`: a group is needed while a process of it drains. Without
/// it, the close looks for a group that is gone, or finds another that has its key now (INV-DRAINING).
/// Asserted: the process is shut down once, and when its session has been closed nothing is left of the group.
#[test]
fn session_close_x_detach_group() {
    explore("session_close_x_detach_group", &["Draining", "Live"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let mut session = rig.session(&app("a"));
        let closer = spawn(move || session.end(Ending::Closed));
        assert!(rig.pool.detach_group("/a"));
        let found: Found = closer.join().expect("no panic");
        outcomes.note(format!("{found:?}"));
        assert!(rig.pool.snapshot().groups.is_empty(), "nothing needs it any more");
        assert_eq!(rig.spawner.shut_down().len(), 1);
    });
}

/// The same with the slab key in use again when the session is closed: the stale session must not
/// touch the process that has it now.
#[test]
fn stale_session_x_reused_key() {
    let ways = ["Draining", "GoneBeforeLock", "GoneUnderLock", "Live", "Null"];
    explore("stale_session_x_reused_key", &ways, |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        let mut session = rig.session(&app("a"));
        let identifier = session.identifier();
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
