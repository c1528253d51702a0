//! Access to files with the rights of the application's user.
//!
//! The server looks at paths that an application chooses: of a socket, of a restart file below a link, of an interpreter. With
//! the rights of root each look would say whether a file exists in a directory that the application may not enter.

use crate::user::User;
use nix::unistd::{Gid, Uid, getgrouplist, setfsgid, setfsuid};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::process::Gid as Group;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_thread_groups};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Opens a file to learn its facts, with the rights of this user. Without a user it opens as the server.
///
/// With a user, the path is absolute, and no link of `/proc` to an open file or directory is followed: in such a link the
/// server itself would stand in a directory that the user may not enter.
pub(crate) fn open_path(user: Option<&User>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    if user.is_none() {
        return Ok(rustix::fs::open(path, flags, Mode::empty())?);
    }
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    let resolve = ResolveFlags::NO_MAGICLINKS;
    with_rights_of(user, || Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?))
}

/// Returns whether this user sees a regular file at the path.
pub(crate) fn is_file(user: Option<&User>, path: &Path) -> bool {
    let facts = open_path(user, path, OFlags::empty()).and_then(|file| File::from(file).metadata());
    facts.is_ok_and(|facts| facts.is_file())
}

/// Returns when a file was modified, as this user sees it. Without a user, it looks as the server.
///
/// # Errors
/// There is no such file, or the user may not see it.
pub fn modified(user: Option<&User>, path: &Path) -> io::Result<SystemTime> {
    match user {
        Some(_) => File::from(open_path(user, path, OFlags::empty())?).metadata()?.modified(),
        None => path.metadata()?.modified(),
    }
}

/// Runs `work`, which for files has no more rights than this user; without a user, on the calling thread as it is.
///
/// A path that an application names may lead anywhere. The thread changes its file-system user only (`setfsuid`): with
/// another user identity, that user could signal this process.
///
/// # Errors
/// The thread cannot be started, or has not got the user's rights. `work` does not run then.
pub(crate) fn with_rights_of<R: Send>(
    user: Option<&User>,
    work: impl FnOnce() -> io::Result<R> + Send,
) -> io::Result<R> {
    let Some(user) = user else { return work() };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("files".into());
        let work = || {
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            let groups = groups_of(user)?;
            // In this order: without its user, the thread may change neither. The groups are those of this thread alone.
            set_thread_groups(&groups)?;
            setfsgid(gid);
            setfsuid(uid);
            // These calls report no failure. A second call returns the result of the first.
            if (setfsuid(uid), setfsgid(gid)) != (uid, gid) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            // The change of the user takes the rights over files away, but not with a setting of the server's parent
            // (SECBIT_NO_SETUID_FIXUP). The thread needs no capability any more.
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            set_capabilities(None, sets)?;
            work()
        };
        let ended = thread.spawn_scoped(scope, work)?.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Returns the groups of a user. They are looked up once in a while: a directory of users may be far away.
fn groups_of(user: &User) -> io::Result<Arc<[Group]>> {
    const KEPT: Duration = Duration::from_secs(10);
    type Known = (String, u32, Instant, Arc<[Group]>);
    static LAST: Mutex<Option<Known>> = Mutex::new(None);
    let last = || LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, gid, since, groups)) = &*last()
        && (name, *gid) == (&user.name, user.gid)
        && since.elapsed() < KEPT
    {
        return Ok(Arc::clone(groups));
    }
    let groups = getgrouplist(&CString::new(user.name.as_str())?, Gid::from_raw(user.gid))?;
    let groups: Arc<[_]> = groups.iter().map(|gid| Group::from_raw(gid.as_raw())).collect();
    *last() = Some((user.name.clone(), user.gid, Instant::now(), Arc::clone(&groups)));
    Ok(groups)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    pub(crate) fn nobody() -> User {
        User {
            name: "nobody".into(),
            uid: 65534,
            gid: 65534,
            home: "/".into(),
            shell: "/bin/sh".into(),
        }
    }

    /// As [`a_user_learns_nothing_of_a_private_directory`], with capabilities that a change of the user leaves.
    #[test]
    fn capabilities_that_survive_a_change_of_the_user_give_no_rights() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may take another user's rights");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(base.path().join("there"), "").unwrap();
        // The setting is that of this thread and of those that it starts.
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let bits = rustix::thread::CapabilitiesSecureBits::NO_SETUID_FIXUP;
                rustix::thread::set_capabilities_secure_bits(bits).unwrap();
                let path = base.path().join("there");
                with_rights_of(Some(&nobody()), || fs::File::open(path)).unwrap_err().kind()
            });
            assert_eq!(thread.join().unwrap(), io::ErrorKind::PermissionDenied);
        });
    }

    /// The server may stand below a directory that the user may not enter, or have files there open.
    #[test]
    fn no_link_of_the_server_to_an_open_directory_leads_past_a_private_one() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may take another user's rights");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let public = base.path().join("public");
        fs::create_dir(&public).unwrap();
        fs::set_permissions(&public, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(public.join("there"), "").unwrap();
        let open = fs::File::open(&public).unwrap();
        let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        let elsewhere = tempfile::tempdir().unwrap();
        fs::set_permissions(elsewhere.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(elsewhere.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), elsewhere.path().join("link")).unwrap();
        let user = Some(nobody());
        for name in ["there", "absent"] {
            let path = Path::new(&link).join(name);
            let error = modified(user.as_ref(), &path).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(40), "{name}: {error}"); // ELOOP
            assert!(!is_file(user.as_ref(), &path));
            let relative = modified(user.as_ref(), Path::new(name)).unwrap_err();
            assert_eq!(relative.kind(), io::ErrorKind::InvalidInput);
        }
        // Other links are followed.
        let file = elsewhere.path().join("link/file");
        assert!(is_file(user.as_ref(), &file) && modified(user.as_ref(), &file).is_ok());
        assert!(is_file(None, &Path::new(&link).join("there")));
    }

    #[test]
    fn a_user_learns_nothing_of_a_private_directory() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may take another user's rights");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("there"), "").unwrap();
        let user = nobody();
        // The server may be in groups that may enter a directory. Only this test's thread joins one.
        rustix::thread::set_thread_groups(&[rustix::process::Gid::ROOT]).unwrap();
        for mode in [0o700, 0o750] {
            fs::set_permissions(base.path(), fs::Permissions::from_mode(mode)).unwrap();
            for name in ["there", "absent"] {
                let path = base.path().join(name);
                let error = with_rights_of(Some(&user), || fs::File::open(&path)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{mode:o} {name}");
            }
        }
        // The calling thread keeps its rights.
        assert!(fs::File::open(base.path().join("there")).is_ok());
    }
}
