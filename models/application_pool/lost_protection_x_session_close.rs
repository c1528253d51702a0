//! A group loses the protection of its minimum while a session of another group is closed (errata E29, E40, E41).
//!
//! Guards the two parts of `InactiveApps::evictable`. The group that loses its protection has a process that has been
//! idle for longer than the one that becomes idle now. Were it listed behind that one, the pool would evict the wrong
//! process, and its cleaner would sleep past the end of the idle time. Asserted: the process that has been idle
//! longest is due first.

use crate::models::rig::*;

#[test]
fn lost_protection_x_session_close() {
    explore(Model("lost_protection_x_session_close", 30), &["before", "after"], |outcomes| {
        let rig = Rig::new(|b| b.max(3)).reentrant();
        let protected = app("a").with_min_processes(2);
        let (first, second) = (rig.session(&protected), rig.session(&protected));
        drop(first);
        drop(second);
        let other = rig.session(&app("b"));
        let closer = spawn(move || drop(other));
        // The second process: the first one stays idle.
        let session = rig.pool.try_get(&app("a")).expect("a process is idle");
        let due = rig.pool.inner().critical(|state, _| {
            let (_, key) = state.next_idle().expect("a process is due");
            (state.process(key).entry.pid, state.active)
        });
        outcomes.note(if due.1 == 2 { "before" } else { "after" });
        assert_eq!(due.0, Some(1), "the longest idle process is not due first");
        closer.join().expect("no panic");
        drop(session);
        rig.clock.advance(IDLE);
        rig.pool.clean();
        assert_eq!(rig.spawner.shut_down().first().map(|(pid, _)| *pid), Some(1));
    });
}
