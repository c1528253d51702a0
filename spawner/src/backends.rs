//! The directory of the sockets of application processes.
//!
//! It belongs to the user of the application, who may put a link in the place of each file in it, and of each directory
//! elsewhere. A server that runs as root would follow such a link. So the server holds the directory open, and reaches
//! only single files in it, below the open directory. It removes no file elsewhere.

use crate::file_rights::open_path;
use crate::user::User;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::path::Arg;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The open directory.
#[derive(Clone, Debug)]
pub(crate) struct Backends {
    path: PathBuf,
    dir: Arc<OwnedFd>,
    /// The user of the application, if it is not the server's.
    user: Option<User>,
}

/// Identifies a file, whatever its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Backends {
    /// Opens the directory, which is the server's own or `user`'s. The server owns `place`, which contains it.
    pub(crate) fn open(
        place: impl AsFd,
        path: PathBuf,
        user: Option<&User>,
    ) -> io::Result<Backends> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        // A look first: on a file system that is frozen each attempt to write hangs.
        let made = match open_dir_at(&place, name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => make_dir_at(&place, name),
            opened => {
                return Ok(Backends { dir: opened?.into(), user: user.cloned(), path });
            }
        };
        let dir = match made {
            Ok(dir) => {
                if let Some(user) = user {
                    let (uid, gid) = (user.uid.into(), user.gid.into());
                    nix::unistd::fchown(&dir, Some(uid), Some(gid))?;
                }
                dir
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => open_dir_at(&place, name)?,
            Err(e) => return Err(e),
        };
        Ok(Backends { path, dir: dir.into(), user: user.cloned() })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the file in this directory that the path leads to.
    pub(crate) fn name_in<'p>(&self, path: &'p Path) -> Option<&'p OsStr> {
        let Some(Component::Normal(name)) = path.components().next_back() else { return None };
        let parent = path.parent()?;
        // The process may know the directory by another name, without links.
        let is_own = || {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let parent = open_path(self.user.as_ref(), parent, flags).ok()?;
            Some(identity(&parent)? == identity(&self.dir)?)
        };
        (parent == self.path || is_own() == Some(true)).then_some(name)
    }

    /// Opens a file to learn its facts, and not to read it.
    pub(crate) fn open_path(&self, name: &OsStr) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.dir, name, PATH, Mode::empty())?)
    }

    /// Opens a file elsewhere, with the rights of the application's user, to learn its facts.
    pub(crate) fn open_elsewhere(&self, path: &Path) -> io::Result<OwnedFd> {
        open_path(self.user.as_ref(), path, OFlags::NOFOLLOW)
    }

    /// Removes a file, if it is still this one.
    pub(crate) fn remove(&self, name: &OsStr, file: Identity) {
        let Ok(facts) = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) else {
            return;
        };
        if Identity::of(&facts) == file {
            let _ = rustix::fs::unlinkat(&self.dir, name, AtFlags::empty());
        }
    }
}

/// Flags that open a file without any effect on it, and a link itself.
const PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Identity {
    pub(crate) fn of(facts: &rustix::fs::Stat) -> Identity {
        Identity { device: facts.st_dev, inode: facts.st_ino }
    }
}

pub(crate) fn identity(file: impl AsFd) -> Option<Identity> {
    Some(Identity::of(&rustix::fs::fstat(file).ok()?))
}

/// Creates a directory that only its owner may enter, whatever the umask, and opens it.
pub(crate) fn make_dir(path: &Path) -> io::Result<OwnedFd> {
    make_dir_at(CWD, path.as_os_str())
}

/// As [`make_dir`], below an open directory.
pub(crate) fn make_dir_at(place: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(&place, name, Mode::RWXU)?;
    let dir = open_dir_at(&place, name)?;
    let own = rustix::process::geteuid().as_raw();
    if rustix::fs::fstat(&dir)?.st_uid != own {
        return Err(io::Error::other(format!("another user has replaced {}", name.display())));
    }
    rustix::fs::fchmod(&dir, Mode::RWXU)?;
    Ok(dir)
}

/// Opens a directory, and no link to one.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    open_dir_at(CWD, path)
}

/// Opens a directory below an open one, and no link to one.
pub(crate) fn open_dir_at(place: impl AsFd, path: impl Arg) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(place, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn backends_in(base: &Path) -> Backends {
        Backends::open(open_dir(base).unwrap(), base.join("backends"), None).unwrap()
    }

    fn identity_of(path: &Path) -> Identity {
        let facts = path.symlink_metadata().unwrap();
        Identity { device: facts.dev(), inode: facts.ino() }
    }

    #[test]
    fn a_file_is_removed_only_if_it_is_the_same() {
        let base = tempfile::tempdir().unwrap();
        let backends = backends_in(base.path());
        let path = backends.path().join("a");
        fs::write(&path, "").unwrap();
        let first = identity_of(&path);
        fs::rename(&path, base.path().join("kept")).unwrap();
        fs::write(&path, "").unwrap();
        backends.remove("a".as_ref(), first);
        assert!(path.exists());
        backends.remove("a".as_ref(), identity_of(&path));
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_that_became_a_link_leads_nowhere() {
        let base = tempfile::tempdir().unwrap();
        let backends = backends_in(base.path());
        let precious = base.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("a"), "").unwrap();
        fs::rename(backends.path(), base.path().join("old")).unwrap();
        symlink(&precious, backends.path()).unwrap();
        assert!(backends.open_path("a".as_ref()).is_err());
        backends.remove("a".as_ref(), identity_of(&precious.join("a")));
        assert!(precious.join("a").exists());
    }

    #[test]
    fn only_a_single_name_below_the_directory_is_in_it() {
        let base = tempfile::tempdir().unwrap();
        let backends = backends_in(base.path());
        let link = base.path().join("link");
        symlink(base.path(), &link).unwrap();
        let name = |path: PathBuf| backends.name_in(&path).map(|name| name.to_owned());
        assert_eq!(name(backends.path().join("a")), Some("a".into()));
        assert_eq!(name(link.join("backends/a")), Some("a".into()));
        assert_eq!(name(base.path().join("a")), None);
        assert_eq!(name(backends.path().join("b/a")), None);
        assert_eq!(name(backends.path().join("..")), None);
        assert_eq!(name("/".into()), None);
    }
}
