//! A restart's first spawn fails, with two gets at once (erratum E22).
//!
//! Guards `Group::reload_pending`: a restart ends when a process with the new code exists, not when the file was
//! seen. In the pseudocode the reload is requested once, and lost with the spawn that failed. Asserted: the first get
//! to arrive sees the change, once. Waiting gets fail with the error. Every spawn until the first success asks the
//! spawner to reload. User code does not re-enter the pool in either model: loom would need more than 45 seconds.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn restart_x_failing_spawn() {
    explore(Model("restart_x_failing_spawn", 3_954), &["both waited", "one waited"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::with_file(&file, |b| b.max(1));
        rig.idle(&app("a"));
        file.touch();
        rig.spawner.next(Spawn::fail("no such constant"));
        let pool = rig.pool.clone();
        let other = spawn(move || pool.get(&app("a")).map(drop));
        assert!(matches!(rig.pool.get(&app("a")), Err(GetError::Spawn(_))));
        assert!(matches!(other.join(), Ok(Err(GetError::Spawn(_)))));
        let waited = rig.pool.snapshot().totals.waited;
        rig.clock.advance(DRAIN);
        drop(crate::kernel::sync::thread::inline(|| rig.pool.get(&app("a"))).expect("a session"));
        assert_eq!(rig.generation(&app("a")), 1, "one touch, one restart");
        assert_eq!(rig.spawner.reloaded().len(), 2, "each spawn of the restart reloads");
        // The first get of all waited, and so did the last.
        outcomes.note(if waited == 3 { "both waited" } else { "one waited" });
    });
}

/// Two groups whose restart files lie in the same directory.
///
/// Guards `Group::seen`: each group remembers its own look. In the pseudocode the first group to look takes the
/// change away from the other. Asserted: both restart (PROP-RESTART-SEEN).
///
/// Each get's spawn ends on the get's own thread (`inline`), so no get sleeps for it. The guarded line runs in the
/// get's first section, before any spawn: the looks and sections of the two gets still come in every order.
#[test]
fn shared_restart_file() {
    explore(Model("shared_restart_file", 672), &["a first", "b first"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::with_file(&file, |b| b.max(2));
        let shared = |name: &str| app(name).with_restart_dir("/shared");
        rig.idle(&shared("a"));
        rig.idle(&shared("b"));
        file.touch();
        let pool = rig.pool.clone();
        let other = spawn(move || {
            crate::kernel::sync::thread::inline(|| pool.get(&shared("a"))).expect("a session").pid()
        });
        drop(
            crate::kernel::sync::thread::inline(|| rig.pool.get(&shared("b"))).expect("a session"),
        );
        let of_a = other.join().expect("no panic");
        assert_eq!((rig.generation(&shared("a")), rig.generation(&shared("b"))), (1, 1));
        outcomes.note(if of_a == 3 { "a first" } else { "b first" });
    });
}
