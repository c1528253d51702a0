//! Whether files have changed: their times, lengths and identities, and for a while their contents.
//!
//! A file system counts a file's time in granules, the coarsest of 2 seconds. Two edits in one granule leave the same
//! time, and perhaps the same length. A file whose time is younger than a granule is therefore *unsettled*: a hash of
//! its contents counts as well.
//!
//! An unsettled file settles at a look that finds it older than a granule, with the stamp and the contents of the last
//! load. Any later edit gets a later time. So no edit is lost, unless the clock is set back, or is behind on a mount.

use super::changes::Watch;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The coarsest granule of a file's time (FAT).
const GRANULE: Duration = Duration::from_secs(2);

pub(crate) struct Files {
    paths: Vec<PathBuf>,
    /// The files before the last load.
    loaded: Mutex<Arc<Look>>,
}

/// The stamp of each file, and the hash of an unsettled file's contents.
type Look = BTreeMap<PathBuf, (Stamp, Option<u64>)>;

/// Changes with each edit, if the edits are at least a granule apart.
#[derive(Clone, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    /// When the file or its attributes last changed, if the system knows.
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
    /// Whether each edit after `now` gets another stamp. A time in the future has no age yet.
    fn is_settled(&self, now: SystemTime) -> bool {
        let is_old = |time: SystemTime| now.duration_since(time).is_ok_and(|age| age > GRANULE);
        // Each edit sets the time of the change. A program may set the time of the modification to any value.
        self.changed.or(self.modified).is_some_and(is_old)
    }
}

impl Files {
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        let loaded = Mutex::new(Arc::new(look(&paths, SystemTime::now())));
        Files { paths, loaded }
    }
}

impl Watch for Files {
    fn has_changed(&self) -> bool {
        // The time is read first, then the stamps, then the contents. So the stamp of a file that settles was older
        // than a granule when its contents were compared.
        let now = SystemTime::now();
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let present = stamps(&self.paths);
        let stamped = loaded.iter().map(|(path, (stamp, _))| (path, stamp));
        if !stamped.eq(&present) {
            return true;
        }
        let unsettled = || loaded.iter().filter_map(|(path, (at, h))| Some((path, at, (*h)?)));
        if unsettled().any(|(path, _, loaded)| hash(path) != loaded) {
            return true;
        }
        if unsettled().any(|(_, stamp, _)| stamp.is_settled(now)) {
            let mut settled = Look::clone(&loaded);
            for (stamp, hash) in settled.values_mut() {
                *hash = hash.filter(|_| !stamp.is_settled(now));
            }
            // No reload has looked meanwhile: the execution that checks has its share.
            *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(settled);
        }
        false
    }
    fn take_up(&self) {
        let present = Arc::new(look(&self.paths, SystemTime::now()));
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = present;
    }
}

fn look(paths: &[PathBuf], now: SystemTime) -> Look {
    let seen = |(path, stamp): (PathBuf, Stamp)| {
        let contents = (!stamp.is_settled(now)).then(|| hash(&path));
        (path, (stamp, contents))
    };
    stamps(paths).into_iter().map(seen).collect()
}

/// Returns the stamps of the files at these paths and below them. A missing file has no stamp.
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
    // A read of a pipe or a device may never end.
    let is_regular = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if let Some(mut file) = is_regular.then(|| File::open(path).ok()).flatten() {
        let mut part = [0; 8192];
        while let Ok(length @ 1..) = file.read(&mut part) {
            hasher.write(&part[..length]);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_time_of_modification_settles_no_file() {
        let (old, now) = (SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + 9 * GRANULE);
        let stamp = Stamp { modified: Some(old), changed: Some(now), length: 0, id: [0; 2] };
        assert!(!stamp.is_settled(now));
    }

    /// A file of the library, which is older than a granule. Its contents are not read, once they have been compared.
    fn old() -> (PathBuf, SystemTime) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join("lib.rs");
        let file = fs::metadata(&path).expect("it is there");
        let stamp = Stamp::of(&file);
        (path, stamp.changed.or(stamp.modified).expect("its time"))
    }

    #[test]
    fn a_file_settles_at_the_look_that_finds_it_old() {
        let (path, young) = old();
        let loaded = Mutex::new(Arc::new(look(std::slice::from_ref(&path), young)));
        let watched = Files { paths: vec![path.clone()], loaded };
        let is_read = || watched.loaded.lock().expect("no panic")[&path].1.is_some();
        assert!(is_read(), "it is young");
        assert!(!watched.has_changed() && !is_read() && !watched.has_changed());
        watched.take_up();
        assert!(!is_read() && !watched.has_changed());
    }

    #[test]
    fn each_part_of_a_stamp_counts() {
        let (path, _) = old();
        let spoils: [fn(&mut Stamp); 5] = [
            |stamp| stamp.modified = Some(SystemTime::UNIX_EPOCH),
            |stamp| stamp.changed = Some(SystemTime::UNIX_EPOCH),
            |stamp| stamp.length += 1,
            |stamp| stamp.id[0] += 1,
            |stamp| stamp.id[1] += 1,
        ];
        for (nth, spoil) in spoils.into_iter().enumerate() {
            let paths = vec![path.clone()];
            let mut before = look(&paths, SystemTime::now());
            before.values_mut().for_each(|(stamp, _)| spoil(stamp));
            let watched = Files { paths, loaded: Mutex::new(Arc::new(before)) };
            assert!(watched.has_changed(), "part {nth}");
        }
    }

    /// The test gives the edited file the stamp that it had before, so no result depends on the granules of times.
    #[test]
    fn an_edit_at_any_place_is_a_change_though_all_stamps_are_equal() {
        const LENGTH: usize = 20 << 10;
        let path = std::env::temp_dir().join(format!("cabrank-edit-{}", std::process::id()));
        fs::write(&path, [b'a'; LENGTH]).expect("it is writable");
        let paths = vec![path.clone()];
        // A time at which the file is young.
        let now = fs::metadata(&path).and_then(|file| file.modified()).expect("its time");
        for edited in [0, 8191, 8192, 15_000, LENGTH - 1] {
            let mut before = look(&paths, now);
            let mut text = [b'a'; LENGTH];
            text[edited] = b'b';
            fs::write(&path, text).expect("it is writable");
            for (path, (stamp, _)) in &mut before {
                *stamp = Stamp::of(&fs::metadata(path).expect("it is there"));
            }
            let watched = Files { paths: paths.clone(), loaded: Mutex::new(Arc::new(before)) };
            assert!(watched.has_changed(), "byte {edited}");
            watched.take_up();
            assert!(!watched.has_changed(), "byte {edited}");
        }
        fs::remove_file(path).expect("it is there");
    }

    /// The contents of a young file count until it settles itself.
    #[test]
    fn a_file_that_settles_leaves_a_young_one_unsettled() {
        let (old, at) = old();
        let young = std::env::temp_dir().join(format!("cabrank-young-{}", std::process::id()));
        loop {
            let begun = std::time::Instant::now();
            fs::write(&young, "text").expect("it is writable");
            let paths = vec![old.clone(), young.clone()];
            let loaded = Mutex::new(Arc::new(look(&paths, at)));
            let watched = Files { paths, loaded };
            let changed = watched.has_changed();
            let look = watched.loaded.lock().expect("no panic").clone();
            // Else it may have been old when it was looked at, on a busy machine.
            if begun.elapsed() < GRANULE {
                let are_read = [&old, &young].map(|path| look[path].1.is_some());
                assert_eq!((changed, are_read), (false, [false, true]));
                break;
            }
        }
        fs::remove_file(young).expect("it is there");
    }
}
