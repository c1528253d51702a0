//! The removal of the instance directories of dead servers.
//!
//! A directory without a lock is stale: its server has ended, and its reaper has not removed it. The next server of the same
//! user does that. An application of the dead server may still run, and add files as fast as they are removed. So a thread of
//! its own removes stale directories, and the start does not wait for it.

use super::found::{Base, Found};
use super::layout::GENERATION;
use crate::removal::remove_open;
use rustix::fs::{AtFlags, FileType};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The attempts to remove a directory to which a process adds files, and the pause after each.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// Removes directories of this user whose server has ended. Returns false if one of them is still there.
pub(super) fn remove(name: &str, base: &Base) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let mut all_removed = true;
    for found in base.found(name) {
        if found.uid() == own && !found.is_open_to_others() {
            all_removed &= remove_one(base, found);
        }
    }
    all_removed
}

/// Removes a directory if its server has ended. Returns false if it has ended, and the directory is still there.
fn remove_one(base: &Base, found: Found) -> bool {
    if found.lock().is_err() {
        return true;
    }
    // A new server's directory is unlocked for a moment, between its creation and the lock.
    let young = found
        .dir
        .metadata()
        .and_then(|m| m.modified())
        .is_ok_and(|t| t.elapsed().is_ok_and(|age| age < Duration::from_secs(5)));
    let pid = found.pid;
    let alive = Path::new("/proc").join(pid.to_string()).exists() && pid != std::process::id();
    if young && alive {
        return true;
    }
    // A server that ended at its beginning has left it empty. Any other directory without these parts is no server's.
    let generation = rustix::fs::statat(&found.dir, GENERATION, AtFlags::SYMLINK_NOFOLLOW);
    match generation.is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode).is_dir()) {
        true => remove_open(&base.dir, found.name.as_ref(), found.dir.into()).is_ok(),
        false => rustix::fs::unlinkat(&base.dir, &found.name, AtFlags::REMOVEDIR).is_ok(),
    }
}

/// Removes such directories on a thread of its own. After some attempts in vain, the next server does it.
pub(super) fn remove_in_background(name: &'static str, base: Base) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Above the largest possible pid.
    const DEAD: &str = "cabrank.4194304.abcdefgh";

    /// Returns a directory that contains one of a dead server, with a file in it.
    fn base() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(DEAD).join(GENERATION).join("file");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        (dir, file)
    }

    /// The owner of the link lets it lead elsewhere after the start.
    #[test]
    fn a_link_that_changes_leads_the_removal_nowhere_else() {
        let ((dir, file), (_other, precious)) = (base(), base());
        let theirs = tempfile::tempdir().unwrap();
        let [link, next] = ["link", "next"].map(|name| theirs.path().join(name));
        symlink(dir.path(), &link).unwrap();
        let base = Base::open(&link).unwrap();
        symlink(precious.ancestors().nth(3).unwrap(), &next).unwrap();
        fs::rename(&next, &link).unwrap();
        assert!(remove("cabrank", &base));
        assert!(!file.exists() && precious.exists());
    }

    /// Another directory gets the name between the look at it and the removal.
    #[test]
    fn only_the_directory_that_was_looked_at_is_removed() {
        for has_parts in [true, false] {
            let ((dir, file), (_other, precious)) = (base(), base());
            let (name, aside) = (dir.path().join(DEAD), dir.path().join("aside"));
            if !has_parts {
                fs::remove_dir_all(name.join(GENERATION)).unwrap();
            }
            let base = Base::open(dir.path()).unwrap();
            let found = base.found("cabrank").next().unwrap();
            fs::rename(&name, &aside).unwrap();
            fs::rename(precious.ancestors().nth(2).unwrap(), &name).unwrap();
            assert!(!remove_one(&base, found));
            assert!(file.exists(), "the other directory is there, with its file");
            assert!(!aside.join(GENERATION).join("file").exists());
        }
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_left_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, file) = base();
        let path = dir.path().join(DEAD);
        fs::remove_dir_all(path.join(GENERATION)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(remove("cabrank", &Base::open(dir.path()).unwrap()));
        assert!(path.exists() && !file.exists());
    }
}
