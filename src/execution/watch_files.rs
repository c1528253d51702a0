//! Whether files have changed: their times, lengths and identities, and for a while their contents.
//!
//! A file system counts a file's time in granules, the coarsest of 2 seconds. Two edits in one granule leave the same
//! time, and perhaps the same length. A file whose time is younger than a granule is therefore *unsettled*: a hash of
//! its contents counts as well.
//!
//! An unsettled file settles at a look that finds it older than a granule, with the time and the contents of the last
//! load. Any later edit gets a later time. So no edit is lost, unless the clock is set back.

use super::changes::Watch;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The coarsest granule of a file's time (FAT).
const GRANULE: Duration = Duration::from_secs(2);

pub(crate) struct Files {
    paths: Vec<PathBuf>,
    /// The files before the last load.
    loaded: Mutex<Arc<Look>>,
}

/// The files that were there, by path.
type Look = BTreeMap<PathBuf, Seen>;

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    stamp: Stamp,
    /// The hash of an unsettled file's contents.
    contents: Option<u64>,
}

/// Changes with each edit, if the edits are at least a granule apart.
#[derive(Clone, Debug, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    /// The time of the last change of the file or of its attributes.
    changed: Option<SystemTime>,
    length: u64,
    /// The numbers of the device and the file.
    id: [u64; 2],
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let (changed, id) = {
            use std::os::unix::fs::MetadataExt;
            let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
            let since = u64::try_from(metadata.ctime()).ok().map(|s| Duration::new(s, nanos));
            let changed = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
            (changed, [metadata.dev(), metadata.ino()])
        };
        #[cfg(not(unix))]
        let (changed, id) = (None, [0, 0]);
        Stamp { modified: metadata.modified().ok(), changed, length: metadata.len(), id }
    }
    /// Whether each edit after `now` gets another stamp.
    fn is_settled(&self, now: SystemTime) -> bool {
        // A time in the future has no age yet.
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age > GRANULE);
        self.modified.is_some_and(is_old) && self.changed.is_none_or(is_old)
    }
}

impl Files {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let loaded = Mutex::new(Arc::new(look(&paths)));
        Files { paths, loaded }
    }
    fn loaded(&self) -> MutexGuard<'_, Arc<Look>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Files {
    fn has_changed(&self) -> bool {
        let loaded = self.loaded().clone();
        // The time comes first, then the stamps, then the contents: see `compare`.
        let now = SystemTime::now();
        match compare(&loaded, &stamps(&self.paths), now, hash) {
            Compared::Changed => true,
            Compared::Same => false,
            Compared::Settled(settled) => {
                let mut present = self.loaded();
                // A reload may have looked meanwhile.
                if Arc::ptr_eq(&present, &loaded) {
                    *present = Arc::new(settled);
                }
                false
            }
        }
    }
    fn take_up(&self) {
        let present = Arc::new(look(&self.paths));
        *self.loaded() = present;
    }
}

/// Returns the files as they are now.
fn look(paths: &[PathBuf]) -> Look {
    let now = SystemTime::now();
    let seen = |(path, stamp): (PathBuf, Stamp)| {
        let contents = (!stamp.is_settled(now)).then(|| hash(&path));
        (path, Seen { stamp, contents })
    };
    stamps(paths).into_iter().map(seen).collect()
}

enum Compared {
    Same,
    /// The same, and some files have settled.
    Settled(Look),
    Changed,
}

/// Compares the files that were loaded with the present ones.
///
/// `now` was read before the stamps, and the contents are read after them. A file that settles here had its stamp for
/// longer than a granule when its contents were compared, so a later edit gets another stamp.
fn compare(
    loaded: &Look,
    present: &BTreeMap<PathBuf, Stamp>,
    now: SystemTime,
    hash: impl Fn(&Path) -> u64,
) -> Compared {
    let same = loaded.len() == present.len()
        && loaded.iter().zip(present).all(|((a, seen), (b, stamp))| a == b && seen.stamp == *stamp);
    if !same {
        return Compared::Changed;
    }
    let unsettled = || loaded.iter().filter(|(_, seen)| seen.contents.is_some());
    if unsettled().any(|(path, seen)| seen.contents != Some(hash(path))) {
        return Compared::Changed;
    }
    if !unsettled().any(|(_, seen)| seen.stamp.is_settled(now)) {
        return Compared::Same;
    }
    let mut settled = loaded.clone();
    for seen in settled.values_mut().filter(|seen| seen.stamp.is_settled(now)) {
        seen.contents = None;
    }
    Compared::Settled(settled)
}

/// Returns the stamps of the files at these paths and below them. A file that is not there has none.
fn stamps(paths: &[PathBuf]) -> BTreeMap<PathBuf, Stamp> {
    let mut found = BTreeMap::new();
    let mut left = paths.to_vec();
    while let Some(path) = left.pop() {
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if !metadata.is_dir() {
            found.insert(path, Stamp::of(&metadata));
            continue;
        }
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            // A link to a directory is not followed: it may lead back.
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !is_link || entry.path().is_file() {
                left.push(entry.path());
            }
        }
    }
    found
}

/// Returns a hash of the file's contents, or of the part that can be read.
fn hash(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    if let Ok(mut file) = File::open(path) {
        let mut part = [0; 8192];
        while let Ok(length @ 1..) = file.read(&mut part) {
            hasher.write(&part[..length]);
        }
    }
    hasher.finish()
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stamped(at: SystemTime) -> Stamp {
        Stamp { modified: Some(at), changed: Some(at), length: 5, id: [1, 2] }
    }

    /// The edit leaves time, length and identity as they are.
    #[test]
    fn an_edit_in_the_granule_of_the_load_is_found_by_its_contents() {
        let written = SystemTime::UNIX_EPOCH + 100 * SECOND;
        let path = PathBuf::from("a");
        let present = BTreeMap::from([(path.clone(), stamped(written))]);
        let loaded = Look::from([(path, Seen { stamp: stamped(written), contents: Some(7) })]);
        let at = |now, hash| compare(&loaded, &present, now, |_| hash);
        for now in [written, written + SECOND, written - SECOND, written + 60 * SECOND] {
            assert!(matches!(at(now, 8), Compared::Changed), "the contents differ");
        }
        assert!(matches!(at(written + SECOND, 7), Compared::Same));
        assert!(matches!(at(written - SECOND, 7), Compared::Same), "a time in the future");
        let Compared::Settled(settled) = at(written + 3 * SECOND, 7) else { panic!("it is old") };
        let reads = |_: &Path| panic!("a settled file is not read");
        let later = compare(&settled, &present, written + 9 * SECOND, reads);
        assert!(matches!(later, Compared::Same));
    }

    #[test]
    fn a_file_is_settled_when_both_its_times_are_old() {
        let now = SystemTime::UNIX_EPOCH + 100 * SECOND;
        let old = stamped(now - 3 * SECOND);
        assert!(old.is_settled(now));
        assert!(!old.is_settled(now - SECOND), "it is exactly a granule old");
        let touched = Stamp { changed: Some(now), ..old.clone() };
        assert!(!touched.is_settled(now), "its time was set back");
        assert!(!Stamp { modified: None, ..old.clone() }.is_settled(now));
        assert!(Stamp { changed: None, ..old }.is_settled(now), "the system has one time only");
    }
}
