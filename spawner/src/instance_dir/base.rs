//! The directories that may hold instance directories.
//!
//! The owner of such a directory may put another one in the place of an instance directory, with loaders of its own, which
//! the server then runs. So a server uses `$XDG_RUNTIME_DIR` only if it belongs to the server's user and no other
//! user may write there: `su` and `sudo -E` keep the variable of the caller. A server of root uses no directory in which
//! another user may rename, whether its applications run as root or not.

use crate::user::User;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns the directories that may hold instance directories. A new one goes into the first.
///
/// Only its owner may enter `$XDG_RUNTIME_DIR`, so the processes of another user need the other one.
pub(super) fn bases(user: Option<&User>) -> Vec<PathBuf> {
    let runtime = runtime_dir().filter(|dir| user.is_none() && foreign(dir).is_none());
    runtime.into_iter().chain([std::env::temp_dir()]).collect()
}

/// Returns the directories in which a server of any user may have put its instance directory.
pub(crate) fn all_bases() -> Vec<PathBuf> {
    runtime_dir().into_iter().chain([std::env::temp_dir()]).collect()
}

/// Warns if `$XDG_RUNTIME_DIR` would be used but for its rights.
pub(super) fn report_ignored(user: Option<&User>) {
    if user.is_none()
        && let Some(dir) = runtime_dir()
        && let Some(why) = foreign(&dir)
    {
        tracing::warn!(
            "XDG_RUNTIME_DIR is ignored: {} {why}. The instance directory is in {}.",
            dir.display(),
            std::env::temp_dir().display()
        );
    }
}

pub(super) fn runtime_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_dir())
}

/// Returns why a directory is not this user's alone.
pub(super) fn foreign(dir: &Path) -> Option<&'static str> {
    let Ok(facts) = dir.metadata() else { return Some("cannot be looked at") };
    if facts.uid() != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    (facts.mode() & 0o022 != 0).then_some("can be written by other users")
}

/// Returns the path by which to use the directory. For root it has no links: the owner of a link may change it later.
///
/// Fails if a server of root must not put its directory here: the user may not enter, or a user other than root may put
/// another directory in its place.
pub(crate) fn safe(dir: &Path, user: Option<&User>) -> io::Result<PathBuf> {
    const STICKY: u32 = 0o1000;
    if !rustix::process::geteuid().is_root() {
        return Ok(dir.into());
    }
    let real = dir.canonicalize()?;
    for part in real.ancestors() {
        let facts = part.metadata()?;
        let problem = |what: &str| Err(io::Error::other(format!("{what} {}", part.display())));
        if user.is_some() && facts.mode() & 0o001 == 0 {
            return problem("the user of --user may not enter");
        }
        // In a sticky directory a user may rename only files of its own. The bits of the group also are the mask of an access
        // control list, which may name other users, so they count for the group of root, too.
        let is_shared = facts.mode() & 0o022 != 0 && facts.mode() & STICKY == 0;
        if is_shared {
            return problem(
                "without the sticky bit (chmod +t), users other than root may rename directories in",
            );
        }
        if facts.uid() != 0 {
            return problem("its owner may rename directories in");
        }
    }
    Ok(real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_directory_that_others_may_write_is_foreign() {
        let dir = tempfile::tempdir().unwrap();
        for (mode, is_foreign) in [(0o700, false), (0o755, false), (0o770, true), (0o1777, true)] {
            set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(foreign(dir.path()).is_some(), is_foreign, "{mode:o}");
        }
        assert!(foreign(&dir.path().join("gone")).is_some());
    }

    #[test]
    fn a_directory_of_another_user_is_neither_own_nor_safe_for_root() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may give files away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        safe(dir.path(), None).unwrap();
        chown(dir.path(), Some(1), Some(1)).unwrap();
        assert_eq!(foreign(dir.path()), Some("belongs to another user"));
        let inner = dir.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        for path in [dir.path(), &inner] {
            assert!(safe(path, None).unwrap_err().to_string().contains("may rename"));
        }
    }

    #[test]
    fn root_uses_a_directory_without_links_and_heeds_the_rights_of_groups() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root distrusts directories");
            return;
        }
        let (dir, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        chown(theirs.path(), Some(1), Some(1)).unwrap();
        let link = theirs.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert_eq!(safe(&link, None).unwrap(), dir.path().canonicalize().unwrap());
        // Also the mask of an access control list.
        for (mode, is_safe) in [(0o755, true), (0o775, false), (0o1775, true)] {
            set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
            assert_eq!(safe(dir.path(), None).is_ok(), is_safe, "{mode:o}");
        }
    }
}
