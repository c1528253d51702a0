//! Instance directories of other servers, living and dead.
//!
//! A directory without a lock is stale: its server has ended, and its reaper has not removed it. The next server of the same
//! user does that. An application of the dead server may still run, and add files as fast as they are removed. So a thread of
//! its own removes stale directories, and the start does not wait for it.

use super::layout::{RANDOM, generation, lock};
use crate::removal::remove_tree;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The attempts to remove a directory to which a process adds files, and the pause after each.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// A directory with the name of an instance directory.
pub(crate) struct Found {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
    pub(crate) path: PathBuf,
}

pub(crate) fn found_in(name: &str, base: &Path) -> Vec<Found> {
    let Ok(entries) = std::fs::read_dir(base) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let file = entry.file_name();
            let (pid, random) =
                file.to_str()?.strip_prefix(name)?.strip_prefix('.')?.split_once('.')?;
            // Each other directory of a similar name is somebody's own.
            let is_random =
                random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric());
            let pid = pid.parse().ok().filter(|_| is_random && !pid.starts_with('+'))?;
            let facts = entry.metadata().ok()?; // of the link itself, not its target
            facts.is_dir().then(|| Found { pid, uid: facts.uid(), path: entry.path() })
        })
        .collect()
}

/// Removes directories of this user whose server has ended. Returns false if one of them is still there.
pub(super) fn remove(name: &str, base: &Path) -> bool {
    let mut all_removed = true;
    let own = rustix::process::geteuid().as_raw();
    for Found { pid, path, .. } in found_in(name, base).into_iter().filter(|found| found.uid == own)
    {
        let Ok(_held) = lock(&path) else { continue };
        // A new server's directory is unlocked for a moment, between its creation and the lock.
        let young = path
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|t| t.elapsed().is_ok_and(|age| age < Duration::from_secs(5)));
        let alive = Path::new("/proc").join(pid.to_string()).exists() && pid != std::process::id();
        if !(young && alive) {
            // A server that ended at its beginning has left it empty. Any other directory without these parts is no server's.
            let is_removed = match generation(&path).is_dir() {
                true => remove_tree(&path).is_ok(),
                false => std::fs::remove_dir(&path).is_ok(),
            };
            all_removed &= is_removed;
        }
    }
    all_removed
}

/// Removes such directories on a thread of its own. After some attempts in vain, the next server does it.
pub(super) fn remove_in_background(name: &'static str, base: PathBuf) {
    let attempts = move || {
        for _ in 0..ATTEMPTS {
            if remove(name, &base) {
                break;
            }
            thread::sleep(PAUSE);
        }
    };
    let _ = thread::Builder::new().name("stale".into()).spawn(attempts);
}
