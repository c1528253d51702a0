//! Looks at restart files, as values: a section compares a look with the last one of its group (errata E23, E24).

use std::path::PathBuf;
use std::time::SystemTime;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

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
