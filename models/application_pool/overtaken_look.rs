//! A get looks at `restart.txt`, and arrives after a get with a later look.
//!
//! A get looks without the lock (erratum E24), so it may be delayed between its look and its critical section. Guards
//! `LastSeen::has_changed`: only a look that began after the last counted look had ended is new. Without that, a look
//! from before the touch counts as another change, and one touch restarts twice. Asserted: after one more get there
//! was exactly one restart, whatever the two gets saw, in either order.
//!
//! A spawn ends on the thread of the get that ordered it (`inline`), so no get sleeps for its own. The guarded line
//! compares looks, which come earlier: looks, touch and sections still come in every order. User code does not
//! re-enter the pool: loom would need more than 45 seconds.

use crate::Session;
use crate::in_memory::InMemorySpawner;
use crate::kernel::sync::thread::inline;
use crate::kernel::sync::{Mutex, me};
use crate::models::rig::*;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A `restart.txt`, and the time that each thread saw. Each access is a step for the tool: otherwise the accesses
/// would not be interleaved.
#[derive(Clone)]
struct Watched(Arc<Mutex<File>>);

struct File {
    /// `None` if the file does not exist.
    time: Option<u64>,
    /// Each thread that has looked, and the time that it saw.
    looks: Vec<(usize, Option<u64>)>,
}

impl Watched {
    fn new() -> Self {
        Watched(Arc::new(Mutex::new(File { time: Some(1), looks: vec![] })))
    }
    /// A step after which a look may begin or end.
    fn step(&self) {
        drop(self.0.lock());
    }
    fn touch(&self) {
        self.0.lock().time = Some(2);
    }
    fn delete(&self) {
        self.0.lock().time = None;
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
        let time = time.ok_or(io::ErrorKind::NotFound)?;
        Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(time))
    }
    fn seen_by(&self, thread: usize) -> Option<u64> {
        let file = self.0.lock();
        let (_, time) =
            file.looks.iter().find(|(by, _)| *by == thread).expect("the thread has looked");
        *time
    }
}

/// Two gets look at the file: a slow one on a thread of its own, and a quick one after `change`.
struct Race {
    rig: Rig,
    /// The time that the slow get saw.
    seen: Option<u64>,
    slow: Session<InMemorySpawner>,
    quick: Session<InMemorySpawner>,
}

fn race(reenter: impl FnOnce(Rig) -> Rig, change: fn(&Watched)) -> Race {
    let file = Watched::new();
    let (reentry, watched) = (Reentry::default(), file.clone());
    let looks = reentry.clone();
    let rig = reenter(Rig::with_looks(reentry, |b| {
        b.max(1).restart_files(move |path: &Path| {
            looks.enter();
            watched.look_up(path)
        })
    }));
    rig.spawner.always("/a", unlimited());
    rig.idle(&app("a"));
    let (pool, begin) = (rig.pool.clone(), file.clone());
    let slow = spawn(move || {
        begin.step();
        (me(), inline(|| pool.get(&app("a"))).expect("a session"))
    });
    change(&file);
    let quick = inline(|| rig.pool.get(&app("a"))).expect("a session");
    let (thread, slow) = slow.join().expect("no panic");
    Race { rig, seen: file.seen_by(thread), slow, quick }
}

#[test]
fn overtaken_look() {
    explore(Model("overtaken_look", 2_078), &["before", "overtaken", "after"], |outcomes| {
        let Race { rig, seen, slow, quick } = race(|rig| rig, Watched::touch);
        // The time that it saw, and its process: the second process is the first one with the new code.
        outcomes.note(match (seen, slow.pid()) {
            (Some(1), 1) => "before",
            (Some(1), 2) => "overtaken",
            (Some(2), _) => "after",
            other => panic!("{other:?}"),
        });
        drop((quick, slow));
        drop(inline(|| rig.pool.get(&app("a"))).expect("a session"));
        assert_eq!(rig.generation(&app("a")), 1, "one touch, one restart");
    });
}

/// The file is deleted. That restarts nothing, but the group remembers it as its last look (erratum E23).
///
/// Guards in `LastSeen::has_changed` that it stores when a look ended that brought no change. Otherwise a late look
/// from before the deletion counts as a new file and restarts the group. Asserted: no restart, whatever the two gets
/// saw, in either order, and the one process serves both.
#[test]
fn overtaken_deletion() {
    explore(Model("overtaken_deletion", 2_101), &["before", "after"], |outcomes| {
        let race = race(Rig::with_reentrant_looks, Watched::delete);
        outcomes.note(match race.seen {
            Some(_) => "before",
            None => "after",
        });
        assert_eq!((race.quick.pid(), race.slow.pid()), (1, 1));
        assert_eq!(race.rig.generation(&app("a")), 0, "a deletion restarts nothing");
    });
}
