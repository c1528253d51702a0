//! Removes the directory of a server with whatever an application has put into it.
//!
//! The directory of sockets belongs to the application's user. `std::fs::remove_dir_all` calls itself and opens a directory
//! for each level, so a tree of some ten thousand levels ends the server by an overflow of its stack, or uses up
//! its descriptors. This removal has a bound on its open directories, and does not call itself. It moves a directory that lies
//! deeper up into the top directory, which belongs to the server.
//!
//! It follows no link. Each file is named by a single name below an open directory.

use crate::backends::open_dir;
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

/// Removes a directory and what it contains.
///
/// It goes on after an error, so that one file that cannot be removed keeps no other one.
///
/// # Errors
/// The first error. `NotFound`: there is no such directory. `TimedOut`: there is too much in it.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let mut removal = Removal {
        top: open_dir(path)?,
        found: Vec::new(),
        moved: 0,
        error: None,
        end: Instant::now() + LIMIT,
    };
    removal.found = names(&removal.top)?;
    while let Some(name) = removal.found.pop() {
        if let Err(e) = removal.remove(&name) {
            removal.error.get_or_insert(e);
        }
        if Instant::now() > removal.end {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    match (rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR), removal.error) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(first)) => Err(first),
        (Err(e), None) => Err(e.into()),
    }
}

struct Removal {
    top: OwnedFd,
    /// The names in the top directory that are still to be removed.
    found: Vec<CString>,
    /// The number of directories that were moved up.
    moved: u64,
    error: Option<io::Error>,
    end: Instant,
}

/// An open directory below the top directory.
struct Level {
    name: CString,
    dir: OwnedFd,
    entries: Dir,
    /// The number of looks at its entries.
    looks: usize,
}

impl Level {
    /// Opens a directory by a name in another one, and no link to one.
    fn open(parent: &OwnedFd, name: &CStr) -> io::Result<Level> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let entries = Dir::read_from(&dir)?;
        Ok(Level { name: name.to_owned(), dir, entries, looks: 1 })
    }
}

impl Removal {
    /// Removes a file or directory in the top directory.
    fn remove(&mut self, name: &CStr) -> io::Result<()> {
        if !is_nonempty(&self.top, name)? {
            return Ok(());
        }
        let mut levels = vec![Level::open(&self.top, name)?];
        while let Some(level) = levels.last_mut() {
            if Instant::now() > self.end {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let result = match level.entries.next() {
                Some(Ok(entry)) if is_itself(entry.file_name()) => Ok(()),
                Some(Ok(entry)) => self.descend(&mut levels, entry.file_name()),
                Some(Err(e)) => return Err(e.into()),
                None => self.leave(&mut levels),
            };
            if let Err(e) = result {
                self.error.get_or_insert(e);
            }
        }
        Ok(())
    }

    /// Removes a file in the innermost directory. A directory there becomes the innermost one, or is moved up.
    fn descend(&mut self, levels: &mut Vec<Level>, name: &CStr) -> io::Result<()> {
        let count = levels.len();
        let Some(Level { dir, .. }) = levels.last() else { return Ok(()) };
        if !is_nonempty(dir, name)? {
            return Ok(());
        }
        if count == LEVELS {
            return self.move_up(dir, name);
        }
        let inner = Level::open(dir, name)?;
        levels.push(inner);
        Ok(())
    }

    /// Removes the innermost directory, after its entries.
    fn leave(&self, levels: &mut Vec<Level>) -> io::Result<()> {
        let Some(mut level) = levels.pop() else { return Ok(()) };
        let parent = levels.last().map_or(&self.top, |level| &level.dir);
        if !is_nonempty(parent, &level.name)? {
            return Ok(());
        }
        if level.looks == LOOKS {
            return Err(Errno::NOTEMPTY.into());
        }
        // Another look finds what came during the first one.
        level.looks += 1;
        level.entries = Dir::read_from(&level.dir)?;
        levels.push(level);
        Ok(())
    }

    /// Moves a directory into the top directory.
    fn move_up(&mut self, dir: &OwnedFd, name: &CStr) -> io::Result<()> {
        loop {
            self.moved += 1;
            let new = CString::new(format!(".removed.{}", self.moved))?;
            match rustix::fs::renameat(dir, name, &self.top, &*new) {
                // A removal that was cut short has left this name.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(e) => return Err(e.into()),
                Ok(()) => {
                    self.found.push(new);
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

fn names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !is_itself(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
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
