//! Looks at `restart.txt` and `always_restart.txt`: the pseudocode's `needs_restart`.
//!
//! A look is user code (it reads a file system). Each `get` makes one, before its critical section (erratum
//! E24), which compares it with the group's last look. The pool does no I/O: the user gives the function
//! that looks a file up.

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

/// The result of one look at one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Modified(SystemTime),
    /// The directory could not be read, which asks for no restart.
    Unreadable,
}

/// One look at the files of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) dir: PathBuf,
    /// When it began and ended, by a count of beginnings and ends of looks.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) always: bool,
    pub(crate) restart: Seen,
}

/// A group's last look at one directory's restart file.
#[derive(Debug)]
pub(crate) struct LastSeen {
    seen: Seen,
    ended: u64,
}

impl LastSeen {
    pub(crate) fn new(look: &Look) -> Self {
        LastSeen { seen: look.restart, ended: look.ended }
    }

    /// Returns whether the look asks for a restart, and remembers it. Looks are made without the lock, so one may
    /// arrive after a later one. Only a look that began after the last one had ended counts.
    pub(crate) fn has_changed(&mut self, look: &Look) -> bool {
        if look.began < self.ended {
            return false;
        }
        self.ended = look.ended;
        self.seen.has_changed(look.restart)
    }
}

impl Look {
    /// Returns a look that asks for no restart, at a directory that cannot be read.
    pub(crate) fn unreadable(dir: PathBuf) -> Self {
        Look { dir, began: 0, ended: 0, always: false, restart: Seen::Unreadable }
    }
}

impl Seen {
    /// Returns whether `now` asks for a restart, and remembers it. Creation and a new time do; deletion does
    /// not (erratum E23: PROP-RESTART-LOSS).
    pub(crate) fn has_changed(&mut self, now: Seen) -> bool {
        if now == Seen::Unreadable {
            return false;
        }
        let before = std::mem::replace(self, now);
        // An unreadable first look is no baseline.
        now != before && now != Seen::Absent && before != Seen::Unreadable
    }
}

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

    #[test]
    fn creation_and_a_new_time_restart_and_deletion_does_not() {
        let t = |s| Seen::Modified(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        let mut seen = Seen::Absent;
        assert!(!seen.has_changed(Seen::Absent));
        assert!(seen.has_changed(t(1)), "created");
        assert!(!seen.has_changed(t(1)), "seen already");
        assert!(seen.has_changed(t(2)), "touched");
        assert!(seen.has_changed(t(1)), "put back");
        assert!(!seen.has_changed(Seen::Absent), "deleted");
        assert!(seen.has_changed(t(1)), "created again");
        assert!(!seen.has_changed(Seen::Unreadable));
        assert!(!seen.has_changed(t(1)), "readable again, unchanged");
    }

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

    /// A get looks, is delayed, and arrives after a later one has begun the restart. If that counted as another
    /// change, one touch would restart up to three times.
    #[test]
    fn an_overtaken_look_does_not_count() {
        let modified = |s| Seen::Modified(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        let look = |began, ended, s| Look {
            dir: PathBuf::new(),
            began,
            ended,
            always: false,
            restart: modified(s),
        };
        let mut last = LastSeen::new(&look(0, 1, 1));
        assert!(last.has_changed(&look(4, 5, 2)), "touched");
        assert!(!last.has_changed(&look(2, 3, 1)), "a look from before the touch");
        assert!(!last.has_changed(&look(3, 6, 1)), "one that began before the other had ended");
        assert!(!last.has_changed(&look(7, 8, 2)), "unchanged");
        assert!(last.has_changed(&look(9, 10, 1)), "put back");
    }

    /// A deletion asks for no restart, and is remembered all the same (errata E23, E24).
    #[test]
    fn a_look_that_is_overtaken_by_a_look_after_the_deletion_does_not_count() {
        let look = |began, ended, restart| Look {
            dir: PathBuf::new(),
            began,
            ended,
            always: false,
            restart,
        };
        let there = Seen::Modified(SystemTime::UNIX_EPOCH + Duration::from_secs(2));
        let mut last = LastSeen::new(&look(4, 5, there));
        assert!(!last.has_changed(&look(7, 8, Seen::Absent)), "deleted");
        assert!(!last.has_changed(&look(6, 9, there)), "a look from before the deletion");
        assert!(last.has_changed(&look(10, 11, there)), "made again");
    }
}
