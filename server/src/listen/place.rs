//! The directory in which a socket or a pid file stands, held open.
//!
//! Root follows no link that another user may change: it would put the file, its owner and its mode where that user
//! chooses. So it walks the path from `/` one name at a time. Another server has no more rights than its user, and needs no
//! such care.

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

/// The largest number of links on a path, as in Linux.
pub(crate) const MAX_LINKS: usize = 40;
pub(crate) const STICKY: u32 = 0o1000;

/// Opens the directory of an absolute path. Returns it with the last name of the path.
///
/// # Errors
/// The path has no last name, or its directory does not exist. For root also: a link on the path is not root's alone.
pub(crate) fn open(path: &Path) -> io::Result<(OwnedFd, OsString)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"));
    };
    let dir = match rustix::process::geteuid().is_root() {
        true => walk(parent),
        false => enter(CWD, parent.as_os_str()),
    };
    dir.map(|dir| (dir, name.to_owned()))
}

fn enter(dir: impl std::os::fd::AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// Opens a directory, and follows links of root only.
fn walk(path: &Path) -> io::Result<OwnedFd> {
    let mut dir = enter(CWD, OsStr::new("/"))?;
    // Whether only root decides which directory the path has led to.
    let mut is_ours = is_roots(&dir)?;
    let mut names: VecDeque<OsString> = names(path);
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = openat(&dir, &name, flags, Mode::empty())?;
        let facts = fstat(&next)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::Symlink {
            is_ours &= is_roots(&next)?;
            dir = next;
            continue;
        }
        links += 1;
        if !is_ours || facts.st_uid != 0 {
            return Err(io::Error::other(format!(
                "another user may change the link {}, so root does not follow it: give the path without it",
                name.display()
            )));
        }
        if links > MAX_LINKS {
            return Err(io::Error::other("the path has too many links"));
        }
        let target = readlinkat(&next, "", Vec::new())?.into_bytes();
        let target = OsString::from_vec(target);
        if target.as_bytes().starts_with(b"/") {
            dir = enter(CWD, OsStr::new("/"))?;
        }
        for name in self::names(Path::new(&target)).into_iter().rev() {
            names.push_front(name);
        }
    }
    // Only a directory can be opened by this name.
    enter(&dir, OsStr::new("."))
}

/// Returns the names of a path, in their order.
pub(crate) fn names(path: &Path) -> VecDeque<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// Returns whether only root may rename what root has put into the directory.
fn is_roots(dir: &OwnedFd) -> io::Result<bool> {
    let facts = fstat(dir)?;
    let is_shared = facts.st_mode & 0o022 != 0 && facts.st_mode & STICKY == 0;
    Ok(facts.st_uid == 0 && !is_shared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    fn leads_to(path: &Path, dir: &Path) -> bool {
        let facts = fstat(open(path).unwrap().0).unwrap();
        let there = dir.metadata().unwrap();
        (facts.st_dev, facts.st_ino) == (there.dev(), there.ino())
    }

    #[test]
    fn a_path_leads_through_links_and_parents() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("a/b")).unwrap();
        symlink("a/../a/b", base.join("relative")).unwrap();
        symlink(base.join("relative"), base.join("absolute")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        for path in ["a/b/x", "a/../a/./b/x", "relative/x", "absolute/x", "absolute/../b/x"] {
            assert!(leads_to(&base.join(path), &base.join("a/b")), "{path}");
        }
        std::fs::write(base.join("file"), "").unwrap();
        for path in ["gone/x", "loop/x", "file/x"] {
            assert!(open(&base.join(path)).is_err(), "{path}");
        }
        assert!(open(Path::new("/")).is_err());
        assert_eq!(open(&base.join("a/x")).unwrap().1, "x");
    }

    #[test]
    fn root_follows_no_link_that_another_user_may_change() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root distrusts links");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["target", "theirs", "ours"] {
            std::fs::create_dir(base.join(name)).unwrap();
        }
        chown(base.join("theirs"), Some(1), Some(1)).unwrap();
        symlink("../target", base.join("theirs/of_root")).unwrap();
        symlink("../target", base.join("ours/of_root")).unwrap();
        symlink("../target", base.join("ours/of_another")).unwrap();
        std::os::unix::fs::lchown(base.join("ours/of_another"), Some(1), Some(1)).unwrap();
        symlink("theirs", base.join("to_theirs")).unwrap();
        assert!(leads_to(&base.join("ours/of_root/x"), &base.join("target")));
        // The operator names the directory, so the server uses it.
        assert!(leads_to(&base.join("theirs/x"), &base.join("theirs")));
        assert!(leads_to(&base.join("to_theirs/x"), &base.join("theirs")));
        for path in ["theirs/of_root/x", "ours/of_another/x", "theirs/../ours/of_root/x"] {
            let error = open(&base.join(path)).unwrap_err().to_string();
            assert!(error.contains("another user may change the link"), "{path}: {error}");
        }
    }
}
