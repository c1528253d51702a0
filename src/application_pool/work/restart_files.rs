//! Looks at `restart.txt` and `always_restart.txt`: the pseudocode's `needs_restart`.
//!
//! A look is user code (it reads a file system). Each `get` makes one, before its critical section (erratum
//! E24), which compares it with the group's last look. The pool does no I/O: the user gives the function
//! that looks a file up.

use crate::application_pool::state::look::{Look, Seen};
use crate::kernel::clock::{Clock, Time};
use crate::kernel::sync::Mutex;
use crate::kernel::user_code::{UserValue, contain, drop_contained};
use foldhash::HashMap;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Returns a file's time of modification.
pub(crate) type LookUp = dyn Fn(&Path) -> io::Result<SystemTime> + Send + Sync;

/// The look-up, and its recent results.
pub(crate) struct RestartFiles {
    look_up: UserValue<Box<LookUp>>,
    throttle: Duration,
    count: AtomicU64,
    recent: Mutex<Recent>,
}

/// The looks that may be used again, and some that may not: those leave at later looks.
#[derive(Default)]
struct Recent {
    looks: HashMap<PathBuf, (Time, Arc<Look>)>,
    by_age: VecDeque<(Time, PathBuf)>,
}

impl Recent {
    /// Adds a look, and removes old ones: a few at a time, because other looks wait meanwhile.
    fn insert(&mut self, now: Time, look: Arc<Look>, throttle: Duration) {
        for _ in 0..16 {
            let old = |(at, _): &&(Time, PathBuf)| now.since(*at) >= throttle;
            if self.by_age.front().filter(old).is_none() {
                break;
            }
            let Some((at, dir)) = self.by_age.pop_front() else { break };
            if self.looks.get(&dir).is_some_and(|(newest, _)| *newest == at) {
                self.looks.remove(&dir);
            }
        }
        self.by_age.push_back((now, look.dir.clone()));
        self.looks.insert(look.dir.clone(), (now, look));
        if self.looks.capacity() > 256 && self.looks.len() < self.looks.capacity() / 8 {
            self.looks.shrink_to_fit();
            self.by_age.shrink_to_fit();
        }
    }
}

impl RestartFiles {
    pub(crate) fn new(look_up: Box<LookUp>, throttle: Duration) -> Self {
        let recent = Mutex::new(Recent::default());
        RestartFiles {
            look_up: UserValue::new(look_up),
            throttle,
            count: AtomicU64::new(0),
            recent,
        }
    }

    /// Whether a look is used again.
    pub(crate) fn is_throttled(&self) -> bool {
        !self.throttle.is_zero()
    }
    /// Returns a look that is younger than the throttle, if there is one.
    pub(crate) fn recent(&self, dir: &Path, clock: &Clock) -> Option<Arc<Look>> {
        if !self.is_throttled() {
            return None;
        }
        let now = clock.now();
        let recent = self.recent.lock().looks.get(dir).cloned();
        recent.filter(|(at, _)| now.since(*at) < self.throttle).map(|(_, look)| look)
    }
    /// Looks at the restart files.
    pub(crate) fn look(&self, dir: PathBuf, clock: &Clock) -> Arc<Look> {
        let now = clock.now();
        let look = Arc::new(self.look_now(dir));
        if self.is_throttled() {
            self.recent.lock().insert(now, look.clone(), self.throttle);
        }
        look
    }

    fn look_now(&self, dir: PathBuf) -> Look {
        let began = self.count.fetch_add(1, Ordering::SeqCst);
        let always = self.see(&dir.join("always_restart.txt"));
        let restart = self.see(&dir.join("restart.txt"));
        let ended = self.count.fetch_add(1, Ordering::SeqCst);
        Look { dir, began, ended, always: matches!(always, Seen::Modified(_)), restart }
    }

    fn see(&self, file: &Path) -> Seen {
        match contain(|| (self.look_up)(file)) {
            Ok(Ok(time)) => Seen::Modified(time),
            Ok(Err(error)) => {
                let absent = error.kind() == io::ErrorKind::NotFound;
                drop_contained(error);
                if absent { Seen::Absent } else { Seen::Unreadable }
            }
            // A panic is treated like an unreadable directory.
            Err(_) => Seen::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of directories that are never looked at again is freed.
    #[test]
    fn looks_that_are_too_old_are_forgotten() {
        let (throttle, mut recent) = (Duration::from_secs(1), Recent::default());
        let mut now = Time::default();
        let look = |dir: usize| {
            let dir = PathBuf::from(dir.to_string());
            Arc::new(Look { dir, began: 0, ended: 1, always: false, restart: Seen::Absent })
        };
        (0..5000).for_each(|dir| recent.insert(now, look(dir), throttle));
        assert_eq!((recent.looks.len(), recent.by_age.len()), (5000, 5000));
        for _ in 0..500 {
            now = now.plus(throttle);
            recent.insert(now, look(7), throttle);
        }
        assert_eq!((recent.looks.len(), recent.by_age.len()), (1, 1));
        assert!(recent.looks.capacity() < 1000 && recent.by_age.capacity() < 1000);
    }

    /// The files may change while a slow look goes on. So the throttle counts from its beginning.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[test]
    fn a_look_is_as_old_as_its_beginning() {
        let (clock, second) = (crate::ManualClock::new(), Duration::from_secs(1));
        let moves = clock.clone();
        let slow: Box<LookUp> = Box::new(move |_| {
            moves.advance(second / 4); // for each of two files
            Err(io::ErrorKind::NotFound.into())
        });
        let (files, dir) = (RestartFiles::new(slow, second), Path::new("/srv/shop"));
        files.look(dir.to_owned(), &clock.clock());
        assert!(files.recent(dir, &clock.clock()).is_some());
        clock.advance(second / 2);
        assert!(files.recent(dir, &clock.clock()).is_none());
    }
}
