//! Removes the directory of a server with whatever an application has put into it.
//!
//! The directory of sockets belongs to the application's user. `std::fs::remove_dir_all` calls itself and opens a directory
//! for each level, so a tree of some ten thousand levels ends the server by an overflow of its stack, or uses up
//! its descriptors. This removal has a bound on its open directories, and does not call itself. It moves a directory that lies
//! deeper up.
//!
//! It follows no link. Each file is named by a single name below an open directory.
//!
//! A server that runs as root removes no file that the application's user could not remove. Below a directory of another
//! user it empties only directories of that same user, because the owner of a directory may remove each file in it.

use crate::backends::{Identity, identity, open_dir};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time for one removal. A process that survived may add files as fast as they are removed.
const LIMIT: Duration = Duration::from_secs(30);
/// The number of levels that are open at once.
const LEVELS: usize = 64;
/// The number of looks at the entries of one directory.
const LOOKS: usize = 3;

/// Removes a directory of this process's user, and what it contains.
///
/// It goes on after an error, so that one file that cannot be removed keeps no other one.
///
/// # Errors
/// The first error. `NotFound`: there is no such directory. `TimedOut`: there is too much in it.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    remove_open(CWD, path, open_dir(path)?)
}

/// Removes an open directory as [`remove_tree`] does. Its caller has looked at it, and its name may name another one by now.
///
/// `name` is its name in the open directory `place`.
///
/// # Errors
/// As [`remove_tree`].
pub(crate) fn remove_open(place: impl AsFd, name: &Path, dir: OwnedFd) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let top = Level::new(c"", dir)?;
    if top.owner != own {
        return Err(io::Error::other("it belongs to another user"));
    }
    // A user can move a directory of root's to this name if he may write to it. No server's own directory is like that.
    if top.is_open_to_others {
        return Err(io::Error::other("other users may write to it"));
    }
    let identity = identity(&top.dir);
    let mut removal =
        Removal { own, levels: vec![top], moved: 0, error: None, end: Instant::now() + LIMIT };
    removal.empty()?;
    // A user may have put a directory of its own in this place. It would not be removed if it were not empty.
    let is_there = rustix::fs::statat(&place, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|there| Some(Identity::of(&there)) == identity);
    let removed = match is_there {
        true => rustix::fs::unlinkat(&place, name, AtFlags::REMOVEDIR),
        false => Err(Errno::NOENT),
    };
    match (removed, removal.error) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(first)) => Err(first),
        (Err(e), None) => Err(e.into()),
    }
}

struct Removal {
    /// The user of this process.
    own: u32,
    /// The directory that is removed, and the open ones below it.
    levels: Vec<Level>,
    /// The number of directories that were moved up.
    moved: u64,
    error: Option<io::Error>,
    end: Instant,
}

/// An open directory.
struct Level {
    name: CString,
    dir: OwnedFd,
    owner: u32,
    /// Its group or every user may write to it.
    is_open_to_others: bool,
    entries: Dir,
    /// The names of the directories that were moved into it.
    found: Vec<CString>,
    /// The number of looks at its entries.
    looks: usize,
    /// It has an entry that cannot be removed. Another look at it would meet each level below it again.
    keeps: bool,
}

impl Level {
    fn new(name: &CStr, dir: OwnedFd) -> io::Result<Level> {
        let facts = rustix::fs::fstat(&dir)?;
        let entries = Dir::read_from(&dir)?;
        Ok(Level {
            name: name.to_owned(),
            dir,
            owner: facts.st_uid,
            is_open_to_others: facts.st_mode & 0o022 != 0,
            entries,
            found: Vec::new(),
            looks: 1,
            keeps: false,
        })
    }

    fn next_name(&mut self) -> Option<io::Result<CString>> {
        if let Some(found) = self.found.pop() {
            return Some(Ok(found));
        }
        let entry = self.entries.next()?;
        Some(entry.map(|entry| entry.file_name().to_owned()).map_err(io::Error::from))
    }
}

impl Removal {
    /// Removes the entries of the outermost directory.
    fn empty(&mut self) -> io::Result<()> {
        while let Some(level) = self.levels.last_mut() {
            if Instant::now() > self.end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let result = match level.next_name() {
                Some(Ok(name)) if is_itself(&name) => Ok(()),
                Some(Ok(name)) => self.descend(&name),
                Some(Err(e)) => return Err(e),
                None if self.levels.len() == 1 => return Ok(()),
                None => self.leave(),
            };
            if let Err(e) = result {
                self.error.get_or_insert(e);
                if let Some(level) = self.levels.last_mut() {
                    level.keeps = true;
                }
            }
        }
        Ok(())
    }

    /// Removes a file in the innermost directory. A directory there becomes the innermost one, or is moved up.
    fn descend(&mut self, name: &CStr) -> io::Result<()> {
        let count = self.levels.len();
        let Some(Level { dir, owner, .. }) = self.levels.last() else { return Ok(()) };
        if !is_nonempty(dir, name)? {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = rustix::fs::openat(dir, name, flags, Mode::empty())?;
        let inner = Level::new(name, inner)?;
        // A user may move any directory into its own, also one whose files it has no right to remove.
        if inner.owner != *owner && *owner != self.own {
            let text = format!("{name:?} belongs to another user than the directory around it");
            return Err(io::Error::other(text));
        }
        if count > LEVELS {
            return self.move_up(name);
        }
        self.levels.push(inner);
        Ok(())
    }

    /// Removes the innermost directory, after its entries.
    fn leave(&mut self) -> io::Result<()> {
        let Some(mut level) = self.levels.pop() else { return Ok(()) };
        let Some(parent) = self.levels.last() else { return Ok(()) };
        if !is_nonempty(&parent.dir, &level.name)? {
            return Ok(());
        }
        if level.keeps || level.looks == LOOKS {
            return Err(Errno::NOTEMPTY.into());
        }
        // Another look finds the entries that came during the first one.
        level.looks += 1;
        level.entries = Dir::read_from(&level.dir)?;
        self.levels.push(level);
        Ok(())
    }

    /// Moves a directory of the innermost one up, into the outermost directory of the same owner. Each removal of it
    /// looks at its owner again: its name may name another directory by now.
    fn move_up(&mut self, name: &CStr) -> io::Result<()> {
        let Some((inner, outer)) = self.levels.split_last_mut() else { return Ok(()) };
        let Some(first) = outer.iter_mut().find(|level| level.owner == inner.owner) else {
            return Err(Errno::NOTEMPTY.into());
        };
        loop {
            self.moved += 1;
            let new = CString::new(format!(".removed.{}", self.moved))?;
            match rustix::fs::renameat(&inner.dir, name, &first.dir, &*new) {
                // A removal that was cut short has left this name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(e) => return Err(e.into()),
                Ok(()) => {
                    first.found.push(new);
                    return Ok(());
                }
            }
        }
    }
}

/// Removes a file, or an empty directory. Returns whether it is a directory that is not empty.
fn is_nonempty(dir: impl AsFd, name: &CStr) -> io::Result<bool> {
    let first = match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(false),
        Err(e) => e,
    };
    match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(true),
        Err(Errno::NOTDIR) => Err(first.into()),
        Err(e) => Err(e.into()),
    }
}

fn is_itself(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Makes a directory of so many levels, deeper than a path can be long.
    fn deep(base: &Path, levels: usize) {
        let mut dir = open_dir(base).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&dir, c"d", Mode::RWXU).unwrap();
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            dir = rustix::fs::openat(&dir, c"d", flags, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_removed_with_a_small_stack_and_few_descriptors() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("instance");
        fs::create_dir_all(path.join("generation-0/backends")).unwrap();
        deep(&path.join("generation-0/backends"), 2000);
        let removed = path.clone();
        let thread = std::thread::Builder::new().stack_size(128 * 1024);
        thread.spawn(move || remove_tree(&removed).unwrap()).unwrap().join().unwrap();
        assert!(!path.exists());
        assert_eq!(remove_tree(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Another user can move a directory that he may write to, also to the name of an instance directory.
    #[test]
    fn a_directory_that_others_may_write_to_stays() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("instance");
        fs::create_dir_all(path.join("generation-0")).unwrap();
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(remove_tree(&path).unwrap_err().to_string().contains("may write"), "{mode:o}");
            assert!(path.join("generation-0").exists());
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o711)).unwrap();
        remove_tree(&path).unwrap();
    }

    /// A user may rename a directory of another user within its own.
    #[test]
    fn a_directory_of_another_user_stays_in_the_directory_of_a_user() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may give files away");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("instance");
        let theirs = path.join("generation-0/backends");
        let deep = theirs.join("d/".repeat(LEVELS + 8));
        fs::create_dir_all(&deep).unwrap();
        for dir in deep.ancestors().take_while(|dir| dir.starts_with(&theirs)) {
            std::os::unix::fs::chown(dir, Some(65534), Some(65534)).unwrap();
        }
        let kept = ["foreign", "d/foreign"].map(|name| theirs.join(name).join("precious"));
        let kept = kept.into_iter().chain([deep.join("foreign/precious")]);
        for file in kept {
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        fs::write(theirs.join("socket"), "").unwrap();
        fs::create_dir(theirs.join("empty")).unwrap();
        let error = remove_tree(&path).unwrap_err();
        assert!(error.to_string().contains("foreign"), "{error}");
        assert_eq!(count(&path, "precious"), 3);
        assert!(!theirs.join("socket").exists() && !theirs.join("empty").exists());
        // The whole tree may have been put in the place of the server's directory.
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
        fs::write(path.join("file"), "").unwrap();
        assert!(remove_tree(&path).unwrap_err().to_string().contains("another user"));
        assert!(path.join("file").exists());
    }

    /// Counts the files of this name.
    fn count(dir: &Path, name: &str) -> usize {
        let entries = fs::read_dir(dir).unwrap().map(Result::unwrap);
        entries
            .map(|entry| match entry.file_type().unwrap().is_dir() {
                true => count(&entry.path(), name),
                false => usize::from(entry.file_name() == name),
            })
            .sum()
    }

    #[test]
    fn links_are_removed_and_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let (path, precious) = (base.path().join("instance"), base.path().join("precious"));
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "").unwrap();
        for dir in ["", "a", "a/b", "a/b/c"] {
            symlink(&precious, path.join(dir).join("link")).unwrap();
            symlink(precious.join("file"), path.join(dir).join("file")).unwrap();
        }
        // As a removal leaves it that was cut short.
        fs::create_dir_all(path.join(".removed.1/full")).unwrap();
        fs::write(path.join(".removed.2"), "").unwrap();
        symlink(&path, base.path().join("to the top")).unwrap();
        assert!(remove_tree(&base.path().join("to the top")).is_err());
        remove_tree(&path).unwrap();
        assert!(!path.exists() && precious.join("file").exists());
    }
}
