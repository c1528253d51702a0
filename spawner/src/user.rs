//! The user of application processes (`--user`).

use crate::error::Error;
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::ffi::CString;
use std::io;
use std::path::PathBuf;

/// A user of the system other than the server's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of the first group.
    pub gid: u32,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

impl From<nix::unistd::User> for User {
    fn from(found: nix::unistd::User) -> User {
        User {
            name: found.name,
            uid: found.uid.as_raw(),
            gid: found.gid.as_raw(),
            home: found.dir,
            shell: found.shell,
        }
    }
}

impl User {
    /// Finds the user that `--user` names. Returns `None` for the server's own user.
    ///
    /// # Errors
    /// The user does not exist, or the server has no right to change to another user.
    pub fn find(name: &str) -> Result<Option<User>, Error> {
        let found = nix::unistd::User::from_name(name)
            .map_err(|e| Error::other(format!("cannot look up the user {name}: {e}.")))?;
        let Some(found) = found else {
            return Err(Error::usage(format!(
                "this system has no user {name}. Name an existing one with --user."
            )));
        };
        let own = rustix::process::geteuid();
        if found.uid.as_raw() == own.as_raw() {
            return Ok(None);
        }
        if !own.is_root() {
            return Err(Error::usage(format!(
                "only root may run applications as the user {name}. Start cabrank as root, or leave \
                 --user out."
            )));
        }
        Ok(Some(User::from(found)))
    }

    /// Finds the user with this number, such as the owner of a file. Returns `None` if the system has none.
    pub fn with_number(uid: u32) -> Option<User> {
        nix::unistd::User::from_uid(uid.into()).ok().flatten().map(User::from)
    }

    /// Makes this process one of the user, with the user's groups. Returns `None` if a number is not one.
    pub fn assume(name: &str, uid: &str, gid: &str) -> Option<io::Result<()>> {
        let (uid, gid) = (uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?);
        let name = CString::new(name).ok()?;
        let change = || -> io::Result<()> {
            nix::unistd::initgroups(&name, gid.into())?;
            nix::unistd::setgid(gid.into())?;
            // Afterwards the process may change neither.
            nix::unistd::setuid(uid.into())?;
            // Linux keeps inheritable capabilities, and with some settings of the server's parent the others, too.
            let none = CapabilitySet::empty();
            let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
            set_capabilities(None, sets).map_err(io::Error::from)
        };
        Some(change())
    }
}

/// Returns the number of a user, by its name or in digits.
///
/// # Errors
/// The user does not exist.
pub fn uid_of(name: &str) -> Result<u32, Error> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    let found = nix::unistd::User::from_name(name)
        .map_err(|e| Error::other(format!("cannot look up the user {name}: {e}.")))?;
    found.map(|user| user.uid.as_raw()).ok_or_else(|| {
        Error::usage(format!("this system has no user {name}. Name an existing one."))
    })
}

/// Returns the number of a group, by its name or in digits.
///
/// # Errors
/// The group does not exist.
pub fn gid_of(name: &str) -> Result<u32, Error> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let found = nix::unistd::Group::from_name(name)
        .map_err(|e| Error::other(format!("cannot look up the group {name}: {e}.")))?;
    found.map(|group| group.gid.as_raw()).ok_or_else(|| {
        Error::usage(format!("this system has no group {name}. Name an existing one."))
    })
}
