//! The servers that run on this machine, as their instance directories show them.

use crate::instance_dir::{Base, all_bases};
use nix::unistd::{Uid, User};
use std::io;
use std::path::PathBuf;

/// A server that runs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
    /// The pid in the name of its instance directory.
    pub pid: u32,
    /// Its instance directory.
    pub path: PathBuf,
    /// The user who owns the directory; `None`: the caller's own.
    pub owner: Option<String>,
}

/// Returns each running server of this user, in order of pid. Root also sees servers of other users.
///
/// Any user can create a directory with such a name in the temporary directory. So a server of another user is one
/// only if the caller has a reason to take it for one.
pub fn running(name: &str) -> Vec<Running> {
    let own = rustix::process::geteuid();
    let bases: Vec<_> = all_bases().iter().flat_map(|base| Base::open(base)).collect();
    let mut found: Vec<_> = bases
        .iter()
        .flat_map(|base| base.found(name))
        .filter(|found| found.uid() == own.as_raw() || own.is_root())
        .filter(|found| found.lock().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock))
        .map(|found| Running {
            pid: found.pid,
            owner: (found.uid() != own.as_raw()).then(|| user_name(found.uid())),
            path: found.path,
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

fn user_name(uid: u32) -> String {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}
