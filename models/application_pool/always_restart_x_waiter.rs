//! Two gets for an application with an `always_restart.txt` (erratum E24).
//!
//! Guards that a get looks at the files once, and `reload_pending` in `State::needs_restart`. A group that still
//! waits for its first process with the new code is not restarted again. In the pseudocode each woken get looks again
//! and kills the process that it was woken for. Asserted: both gets are served, with at most one restart each.
//!
//! Each get's spawn ends on the get's own thread (`inline`), so no get sleeps for its own spawn. The guarded line
//! runs under the lock when a get arrives; the other get still arrives before the spawn ends or after it. A get that
//! sleeps for its own spawn takes loom more than a minute, and so does user code that re-enters the pool.

use crate::application_pool::RestartMode;
use crate::kernel::sync::thread::inline;
use crate::models::rig::*;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// Returns a pool of at most `max` processes, whose applications have an `always_restart.txt`.
fn always_restarting(max: usize) -> Rig {
    let reentry = Reentry::default();
    let looks = reentry.clone();
    Rig::with_looks(reentry, |b| {
        b.max(max).restart_files(move |file: &Path| {
            looks.enter();
            match file.ends_with("always_restart.txt") {
                true => Ok(SystemTime::UNIX_EPOCH),
                false => Err(io::Error::from(io::ErrorKind::NotFound)),
            }
        })
    })
}

#[test]
fn always_restart_x_waiter() {
    explore(Model("always_restart_x_waiter", 549), &["one restart", "two restarts"], |outcomes| {
        let rig = always_restarting(1);
        rig.idle(&app("a"));
        let pool = rig.pool.clone();
        let other = spawn(move || drop(inline(|| pool.get(&app("a"))).expect("a session")));
        drop(inline(|| rig.pool.get(&app("a"))).expect("a session"));
        other.join().expect("no panic");
        outcomes.note(match rig.generation(&app("a")) {
            1 => "one restart",
            2 => "two restarts",
            more => panic!("{more} restarts for two gets"),
        });
    });
}

/// A get arrives while a rolling restart replaces two processes, one after the other (erratum E34).
///
/// Guards the look at `outdated` in `State::needs_restart`. `reload_pending` ends with the first replacement, the
/// restart with the last. Without the line, a get that arrives between the two restarts the new process. Under a
/// stream of gets the last old process is then never replaced.
///
/// The second replacement hangs until the pool is dropped, so the second get arrives before the first replacement or
/// after it. Asserted: it is served by an existing process, and the first get's restart is the only one. The
/// replacements have a thread of their own. User code re-enters the pool only under shuttle: loom would need more
/// than a minute.
#[test]
fn always_restart_x_replacement() {
    let ways = ["before the first replacement", "after it"];
    explore(Model("always_restart_x_replacement", 38_007), &ways, |outcomes| {
        let rig = always_restarting(2);
        let rolling = app("a").with_min_processes(2).with_restart_mode(RestartMode::Rolling);
        rig.idle(&rolling);
        assert_eq!(rig.counts(), (0, 2));
        rig.spawner.next(Spawn::ready());
        rig.spawner.next(Spawn::hang());
        let first = rig.pool.get(&rolling).expect("the old code serves meanwhile");
        let second = rig.pool.get(&rolling).expect("the old code serves meanwhile");
        outcomes.note(match (first.pid(), second.pid()) {
            (1, 2) => "before the first replacement",
            // The new process took the place of the one that serves the first get.
            (1, 3) => "after it",
            other => panic!("{other:?}"),
        });
        assert_eq!(rig.generation(&rolling), 1, "a group that is restarting was restarted");
    });
}
