//! Two gets for an application with an `always_restart.txt` (erratum E24).
//!
//! Guards that the files are looked at once a get, and that a get does not restart what is being
//! restarted: a group that waits for its first process with the new code (`reload_pending` in
//! `State::needs_restart`). As the text has it, every get that wakes looks again and kills
//! the process that it was woken for. Asserted: both are served, and there is at most one restart for
//! each.
//!
//! A spawn runs to its end on the thread of the get that ordered it (`inline`), before that get goes on:
//! no get sleeps for its own. The line looks at what is being restarted when a get comes, under the lock:
//! the other get may come before the spawn ends, or after. To sleep for one's own, and foreign calls that re-enter the
//! pool, are each more than loom goes through in a minute.

use crate::application_pool::RestartMode;
use crate::models::rig::*;
use crate::sync::thread::inline;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// A pool of at most that many processes, whose applications have such a file.
fn always_restarting(max: usize) -> Rig {
    let door = Door::default();
    let looks = door.clone();
    Rig::with_looks(door, |b| {
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
    explore("always_restart_x_waiter", &["one restart", "two restarts"], |outcomes| {
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

/// A get comes while a rolling restart replaces two processes, one after the other (erratum E34).
///
/// Guards the look at `outdated` in `State::needs_restart`: `reload_pending` is over with the first
/// replacement, the restart with the last. Without it, the get that comes between the two restarts what
/// is new already, and under a stream of gets the last process is never replaced. The second replacement takes
/// until the pool is dropped, so the get comes before the first or after it. Asserted: it
/// is served by what is there, and the first get's restart is the only one. The replacements have a thread of their
/// own here; under loom foreign calls do not re-enter the pool: with that, it is not through in a minute.
#[test]
fn always_restart_x_replacement() {
    let ways = ["before the first replacement", "after it"];
    explore("always_restart_x_replacement", &ways, |outcomes| {
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
            // It took the place of the one that serves the first get.
            (1, 3) => "after it",
            other => panic!("{other:?}"),
        });
        assert_eq!(rig.generation(&rolling), 1, "restarted what is being restarted");
    });
}
