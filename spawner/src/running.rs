//! The servers that run on this machine, as their instance directories show them.
//!
//! Root's tools may look into a directory where another user renames: `su` keeps the `XDG_RUNTIME_DIR` of its caller. There,
//! a name shows one directory now and another one later. So each look at a directory uses the open directory, and
//! [`Running::open`] opens no other one. A lock shows a server of the owner only if other users cannot open the directory.

use crate::backends::{Identity, identity, open_dir};
use crate::instance_dir::{Base, Found, all_bases, registries, safe};
use nix::unistd::{Uid, User};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The pid in the name of its instance directory.
    pub pid: u32,
    /// Its instance directory.
    pub path: PathBuf,
    /// Whether it is the caller's own server.
    pub standing: Standing,
    /// The directory, whatever its name.
    pub identity: DirIdentity,
}

/// Whether a server is the caller's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The directory is the caller's, and only the caller can have made it that of a server.
    Own,
    /// The directory is the caller's, but another user may have named or locked it. The text says why.
    Untrusted(&'static str),
    /// This user owns the directory.
    Other(String),
}

/// Identifies a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirIdentity {
    file: Identity,
    owner: u32,
}

/// Returns each running server of this user, in order of pid. Root also sees servers of other users.
///
/// Any user can create a directory with such a name in the temporary directory. So a server of another user is one
/// only if the caller has a reason to take it for one. The same holds for a directory that is not trusted.
///
/// `name` begins the names of instance directories, and `registered` those of the second ones that servers have
/// [registered](crate::instance_dir::register).
pub fn running(name: &str, registered: &str) -> Vec<Running> {
    let bases: Vec<_> = all_bases().into_iter().chain(registries()).collect();
    both(running_in(name, &bases), running_in(registered, &bases))
}

/// Returns all servers once: those with an instance directory that the caller finds, and the others that have registered.
fn both(mut all: Vec<Running>, registered: Vec<Running>) -> Vec<Running> {
    for server in registered {
        // One that is not trusted hides no other one.
        let is_same = |other: &Running| (other.pid, other.uid()) == (server.pid, server.uid());
        if !all.iter().any(|other| is_same(other) && other.standing == server.standing) {
            all.push(server);
        }
    }
    sorted(all)
}

fn sorted(mut all: Vec<Running>) -> Vec<Running> {
    all.sort_by(|a, b| (a.pid, &a.path).cmp(&(b.pid, &b.path)));
    all
}

fn running_in(name: &str, bases: &[PathBuf]) -> Vec<Running> {
    let mut all: Vec<Running> = Vec::new();
    for path in bases {
        // A server of root has its directory only where no other user may rename.
        let (path, why) = match safe(path, None) {
            Ok(real) => (real, None),
            Err(_) => (path.clone(), Some("users other than root may rename directories there")),
        };
        let Ok(base) = Base::open(&path) else { continue };
        for server in base.found(name).filter_map(|found| look(found, why)) {
            // Two variables may name one base.
            if all.iter().all(|other| other.identity != server.identity) {
                all.push(server);
            }
        }
    }
    sorted(all)
}

/// Returns the server of a directory that this user may see and that is locked. `why`: its base is not trusted.
fn look(found: Found, why: Option<&'static str>) -> Option<Running> {
    let (own, owner) = (rustix::process::geteuid(), found.uid());
    if owner != own.as_raw() && !own.is_root() {
        return None;
    }
    found.lock().err().filter(|e| e.kind() == io::ErrorKind::WouldBlock)?;
    let open = found.is_visible_to_others().then_some("other users may open it");
    let standing = match why.or(open) {
        _ if owner != own.as_raw() => Standing::Other(user_name(owner)),
        Some(why) => Standing::Untrusted(why),
        None => Standing::Own,
    };
    let identity = DirIdentity { file: found.identity()?, owner };
    Some(Running { pid: found.pid, path: found.path, standing, identity })
}

impl Running {
    /// Opens the directory, and no other one that has its name by now.
    ///
    /// # Errors
    /// The directory cannot be opened, or another one has taken its place.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let dir = open_dir(&self.path)?;
        let owner = rustix::fs::fstat(&dir)?.st_uid;
        // Another directory may get the number of one that was removed, but not its owner.
        if identity(&dir).map(|file| DirIdentity { file, owner }) != Some(self.identity) {
            let text = format!("another directory has taken the place of {}", self.path.display());
            return Err(io::Error::other(text));
        }
        Ok(dir)
    }

    /// Returns the name of the owner of the directory, or its number.
    pub fn owner(&self) -> String {
        user_name(self.uid())
    }

    /// Returns the uid of the owner of the directory.
    pub fn uid(&self) -> u32 {
        self.identity.owner
    }
}

fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::path::Path;

    /// Makes a directory of this mode as that of a server, with its lock.
    fn locked(base: &Path, pid: u32, mode: u32) -> (PathBuf, File) {
        let path = base.join(format!("cabrank.{pid}.abcdefgh"));
        fs::create_dir(&path).unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (path, held)
    }

    fn running_at(bases: &[&Path]) -> Vec<(u32, Standing)> {
        let bases: Vec<_> = bases.iter().map(|base| base.to_path_buf()).collect();
        running_in("cabrank", &bases).into_iter().map(|found| (found.pid, found.standing)).collect()
    }

    #[test]
    fn a_server_that_has_registered_is_found_once() {
        let (temporary, registry) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _held: Vec<_> = [(&temporary, 1), (&registry, 1), (&registry, 2)]
            .map(|(b, pid)| locked(b.path(), pid, 0o700))
            .into();
        let at = |base: &Path| running_in("cabrank", &[base.into()]);
        let all = both(at(temporary.path()), at(registry.path()));
        let found: Vec<_> = all.iter().map(|server| (server.pid, server.path.parent())).collect();
        assert_eq!(found, [(1, Some(temporary.path())), (2, Some(registry.path()))]);
    }

    /// The owner of the base lets a name show a directory of root's first, and then its own.
    #[test]
    fn no_other_directory_is_opened_under_the_name_of_the_one_that_was_looked_at() {
        let base = tempfile::tempdir().unwrap();
        let (path, _held) = locked(base.path(), 7, 0o700);
        let found = running_in("cabrank", &[base.path().into()]).remove(0);
        let aside = base.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        assert_eq!(found.open().unwrap_err().kind(), io::ErrorKind::NotFound);
        let (_, _other) = locked(base.path(), 7, 0o700);
        assert!(found.open().unwrap_err().to_string().contains("another directory has taken"));
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(&aside, &path).unwrap();
        found.open().unwrap_err();
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
        found.open().unwrap();
    }

    #[test]
    fn a_directory_that_others_may_open_shows_no_server_of_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let modes = [0o700, 0o711, 0o755, 0o777, 0o1777, 0o750, 0o720, 0o702];
        let _held: Vec<_> =
            (1..).zip(modes).map(|(pid, mode)| locked(base.path(), pid, mode)).collect();
        for (pid, standing) in running_at(&[base.path(), base.path()]) {
            assert_eq!(standing == Standing::Own, pid <= 2, "{pid}: {standing:?}");
        }
        assert_eq!(running_at(&[base.path(), base.path()]).len(), modes.len());
    }

    #[test]
    fn root_trusts_no_base_in_which_another_user_may_rename() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root distrusts directories");
            return;
        }
        let (base, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let _held = [locked(base.path(), 1, 0o711), locked(theirs.path(), 2, 0o700)];
        let (foreign, _lock) = locked(theirs.path(), 3, 0o700);
        chown(&foreign, Some(4_000_000), None).unwrap();
        chown(theirs.path(), Some(1), Some(1)).unwrap();
        let found = running_at(&[theirs.path(), base.path()]);
        assert_eq!(found[0], (1, Standing::Own));
        assert!(matches!(found[1], (2, Standing::Untrusted(_))), "{found:?}");
        assert_eq!(found[2], (3, Standing::Other("4000000".into())));
    }
}
