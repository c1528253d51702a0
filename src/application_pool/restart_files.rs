//! Looks at `restart.txt` and `always_restart.txt`: the pseudocode's `needs_restart`.
//!
//! The look is foreign code (it reads a file system) and happens once in each `get`, before the
//! critical section (erratum E24); what it saw is compared with what the group saw last, under the
//! lock. The library does no I/O of its own: the look-up is a function that the user gives.

use super::options::PoolOptions;
use crate::clock::{Clock, Time};
use crate::sync::Mutex;
use crate::user_code::{UserValue, contain, drop_contained};
use foldhash::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Gives a file's time of modification.
pub(crate) type LookUp = dyn Fn(&Path) -> io::Result<SystemTime> + Send + Sync;

/// What one look saw of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Modified(SystemTime),
    /// The directory could not be read: nothing is concluded from that.
    Unreadable,
}

/// What one look saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) dir: PathBuf,
    /// When it was made, by a count of beginnings and ends of looks.
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) always: bool,
    pub(crate) restart: Seen,
}

/// What a group saw last of one directory's restart file.
#[derive(Debug)]
pub(crate) struct LastSeen {
    seen: Seen,
    ended: u64,
}

impl LastSeen {
    pub(crate) fn new(look: &Look) -> Self {
        LastSeen { seen: look.restart, ended: look.ended }
    }

    /// Whether the look asks for a restart. Looks are made without the lock, so one may arrive after a
    /// later one: only a look that began after the last one had ended is news.
    pub(crate) fn has_changed(&mut self, look: &Look) -> bool {
        if look.began < self.ended {
            return false;
        }
        self.ended = look.ended;
        self.seen.has_changed(look.restart)
    }
}

impl Seen {
    /// Whether `now` asks for a restart, given what was seen before; remembers what must be
    /// remembered. Creation and a new time do; deletion does not (erratum E23: PROP-RESTART-LOSS).
    pub(crate) fn has_changed(&mut self, now: Seen) -> bool {
        if now == Seen::Unreadable {
            return false;
        }
        let before = std::mem::replace(self, now);
        // A first look that could not see anything is no baseline.
        now != before && now != Seen::Absent && before != Seen::Unreadable
    }
}

/// The look-up, and what it found lately.
pub(crate) struct RestartFiles {
    look_up: UserValue<Box<LookUp>>,
    throttle: Duration,
    count: AtomicU64,
    recent: Mutex<HashMap<PathBuf, (Time, Look)>>,
}

impl RestartFiles {
    pub(crate) fn new(look_up: Box<LookUp>, throttle: Duration) -> Self {
        let recent = Mutex::new(HashMap::default());
        RestartFiles {
            look_up: UserValue::new(look_up),
            throttle,
            count: AtomicU64::new(0),
            recent,
        }
    }

    /// Looks, or says what was seen less than the throttle's time ago.
    pub(crate) fn look(&self, options: &PoolOptions, clock: &Clock) -> Look {
        let dir = options.restart_dir();
        if self.throttle.is_zero() {
            return self.look_now(dir);
        }
        let now = clock.now();
        if let Some((at, look)) = self.recent.lock().get(&dir).cloned()
            && now.since(at) < self.throttle
        {
            return look;
        }
        let look = self.look_now(dir.clone());
        self.recent.lock().insert(dir, (now, look.clone()));
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
            // A look-up that panics has seen nothing.
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

    /// One get looks, is held up, and arrives after a later one has begun the restart: as the stress
    /// test found, that counted as another change, and one touch restarted up to three times.
    #[test]
    fn a_look_that_is_overtaken_is_no_news() {
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
        assert!(!last.has_changed(&look(7, 8, 2)), "nothing new");
        assert!(last.has_changed(&look(9, 10, 1)), "put back");
    }

    /// The same of a deletion, which is no news itself: that it was seen is remembered all the same
    /// (errata E23, E24).
    #[test]
    fn a_look_that_is_overtaken_by_one_at_the_deletion_is_no_news() {
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
