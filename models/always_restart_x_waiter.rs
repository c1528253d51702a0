//! Two gets for an application with an `always_restart.txt` (erratum E24).
//!
//! Guards that the files are looked at once a get, and that a get does not restart what is being
//! restarted (`State::needs_restart`). As the text has it, every get that wakes looks again and kills
//! the process that it was woken for. Asserted: both are served, and there is at most one restart for
//! each.
//!
//! A spawn runs to its end on the thread of the get that ordered it (`inline`), before that get goes on:
//! no get sleeps for its own. The line looks at what is being restarted when a get comes, under the lock:
//! the other get may come before the spawn ends, or after. To sleep for one's own, and foreign calls that re-enter the
//! pool, are each more than loom goes through in a minute.

use super::rig::*;
use crate::sync::thread::inline;
use std::io;
use std::path::Path;
use std::time::SystemTime;

#[test]
fn always_restart_x_waiter() {
    explore("always_restart_x_waiter", &["one restart", "two restarts"], |outcomes| {
        let door = Door::default();
        let looks = door.clone();
        let rig = Rig::with_looks(door, |b| {
            b.max(1).restart_files(move |file: &Path| {
                looks.enter();
                match file.ends_with("always_restart.txt") {
                    true => Ok(SystemTime::UNIX_EPOCH),
                    false => Err(io::Error::from(io::ErrorKind::NotFound)),
                }
            })
        });
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
