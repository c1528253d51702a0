//! A get looks at `restart.txt`, and arrives after one that has looked since it was touched.
//!
//! Looks are made without the lock (erratum E24), so a get may be held up between its look and its
//! critical section. Guards `LastSeen::has_changed`: only a look that began after the last one that counted had
//! ended is news. Without it, the look from before the touch is taken for another change, and one touch
//! restarts twice. Asserted: after one more get there has been exactly one restart, whatever the two saw, in
//! whatever order they arrived.
//!
//! A spawn runs to its end on the thread of the get that ordered it (`inline`), before that get goes on:
//! no get sleeps for its own. The line compares looks, which are made before any of that: they, the touch and the gets'
//! sections come in every order still. Foreign calls do not re-enter the pool: with that, loom is not
//! through in 45 seconds.

use super::rig::*;
use crate::sync::thread::inline;
use crate::sync::{Mutex, me};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A `restart.txt`, and the time that each thread saw. All that is done with it is a step for the tool:
/// what is none is not interleaved.
#[derive(Clone)]
struct Watched(Arc<Mutex<File>>);

struct File {
    time: u64,
    /// Threads, and what they saw.
    looks: Vec<(usize, u64)>,
}

impl Watched {
    fn new() -> Self {
        Watched(Arc::new(Mutex::new(File { time: 1, looks: vec![] })))
    }
    /// A step after which a look may begin, or end.
    fn step(&self) {
        drop(self.0.lock());
    }
    fn touch(&self) {
        self.0.lock().time += 1;
    }
    fn look_up(&self, file: &Path) -> io::Result<SystemTime> {
        if !file.ends_with("restart.txt") {
            return Err(io::ErrorKind::NotFound.into());
        }
        let time = {
            let mut file = self.0.lock();
            let time = file.time;
            file.looks.push((me(), time));
            time
        };
        // The other look may begin and end before this one has ended.
        self.step();
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(time))
    }
    fn seen_by(&self, thread: usize) -> u64 {
        let file = self.0.lock();
        let (_, time) = file.looks.iter().find(|(by, _)| *by == thread).expect("it has looked");
        *time
    }
}

#[test]
fn overtaken_look() {
    explore("overtaken_look", &["before", "overtaken", "after"], |outcomes| {
        let file = Watched::new();
        let watched = file.clone();
        let rig = Rig::new(|b| b.max(1).restart_files(move |path: &Path| watched.look_up(path)));
        rig.spawner.always("/a", unlimited());
        rig.idle(&app("a"));
        let (pool, begin) = (rig.pool.clone(), file.clone());
        let slow = spawn(move || {
            begin.step();
            (me(), inline(|| pool.get(&app("a"))).expect("a session"))
        });
        file.touch();
        let quick = inline(|| rig.pool.get(&app("a"))).expect("a session");
        let (thread, slow) = slow.join().expect("no panic");
        // What it saw, and which process it was given: the second is the first with the new code.
        outcomes.note(match (file.seen_by(thread), slow.pid()) {
            (1, 1) => "before",
            (1, 2) => "overtaken",
            (2, _) => "after",
            other => panic!("{other:?}"),
        });
        drop((quick, slow));
        drop(inline(|| rig.pool.get(&app("a"))).expect("a session"));
        assert_eq!(rig.generation(&app("a")), 1, "one touch, one restart");
    });
}
