//! Access to files with the rights of the application's user.

use crate::user::User;
use nix::unistd::{Gid, Uid, getgrouplist, setfsgid, setfsuid};
use rustix::process::Gid as Group;
use rustix::thread::set_thread_groups;
use std::ffi::CString;
use std::io;
use std::thread;

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
            let groups = getgrouplist(&CString::new(user.name.as_str())?, gid)?;
            let groups: Vec<_> = groups.iter().map(|gid| Group::from_raw(gid.as_raw())).collect();
            // In this order: without its user, the thread may change neither. The groups are those of this thread alone.
            set_thread_groups(&groups)?;
            setfsgid(gid);
            setfsuid(uid);
            // These calls report no failure. A second call returns the result of the first.
            if (setfsuid(uid), setfsgid(gid)) != (uid, gid) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            work()
        };
        let ended = thread.spawn_scoped(scope, work)?.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_user_learns_nothing_of_a_private_directory() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root may take another user's rights");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        fs::write(base.path().join("there"), "").unwrap();
        let user = User {
            name: "nobody".into(),
            uid: 65534,
            gid: 65534,
            home: "/".into(),
            shell: "/bin/sh".into(),
        };
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
