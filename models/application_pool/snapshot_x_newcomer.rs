//! A group comes, and a session is closed, while a snapshot is made.
//!
//! Guards that a small pool is copied in one section although it has grown since the copy got its memory
//! (`State::copy`). Otherwise the pool's numbers would be of one moment and its processes of another. Asserted: the
//! numbers agree with the groups.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn snapshot_x_newcomer() {
    let outcomes = ["4 groups, busy", "5 groups, busy", "5 groups, idle"];
    explore(Model("snapshot_x_newcomer", 18), &outcomes, |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        // The least memory of a vector is for four groups. The newcomer gets the first one's place in the table.
        for group in ["gone", "b", "c", "d"] {
            rig.spawner.next(Spawn::fail("no database"));
            let failed = crate::kernel::sync::thread::inline(|| rig.pool.get(&app(group)));
            assert!(matches!(failed, Err(GetError::Spawn(_))));
        }
        let session = rig.session(&app("a"));
        assert!(crate::kernel::sync::thread::inline(|| rig.pool.detach_group("/gone")));
        let pool = rig.pool.clone();
        let changes = spawn(move || {
            assert!(matches!(pool.try_get(&app("e")), Err(GetError::WouldBlock)));
            drop(session);
        });
        let snapshot = rig.pool.snapshot();
        let processes = || snapshot.groups.iter().flat_map(|group| &group.processes);
        assert_eq!(processes().count(), snapshot.count);
        assert_eq!(processes().map(|process| process.sessions).sum::<usize>(), snapshot.active);
        changes.join().expect("no panic");
        let state = if snapshot.active == 1 { "busy" } else { "idle" };
        outcomes.note(format!("{} groups, {state}", snapshot.groups.len()));
    });
}
