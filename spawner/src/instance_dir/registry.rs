//! The place where the tools find a server, whatever its temporary directory is.
//!
//! A service may have a temporary directory of its own (`PrivateTmp=`), and a tool another `TMPDIR` than the server. So a server
//! whose instance directory is elsewhere has a second one here, for the tools' socket alone:
//!
//! 1. in `$CABRANK_REGISTRY_DIR`, if that is set;
//! 2. in `/run/cabrank` for root;
//! 3. in `$XDG_RUNTIME_DIR`, or else `/run/user/UID`, for any other user.
//!
//! Without such a place, or if it belongs to another user, the tools need the `TMPDIR` of the server. The rules for who may
//! own or write such a directory are those of the [instance directory](super).

use super::{Instance, InstanceDir, base};
use rustix::fs::Mode;
use std::io;
use std::path::{Path, PathBuf};

/// The place of the registry for root.
const OF_ROOT: &str = "/run/cabrank";
/// The runtime directories of users, by their numbers.
const OF_USERS: &str = "/run/user";

/// Registers a server whose instance directory is elsewhere: creates a directory whose name begins with `name`, for another socket.
/// Returns `None` if the tools find the server without it. The function blocks.
///
/// # Errors
/// There is no place for it, or another user could put a directory in its place.
pub fn register(name: &'static str, instance: &Instance) -> io::Result<Option<InstanceDir>> {
    let Some(dir) = place() else {
        return Err(io::Error::other("this user has no runtime directory"));
    };
    if is_root() {
        match rustix::fs::mkdir(&dir, Mode::RWXU) {
            Err(e) if e != rustix::io::Errno::EXIST => return Err(e.into()),
            _ => {}
        }
    } else if let Some(why) = base::foreign(&dir) {
        return Err(io::Error::other(format!("{} {why}", dir.display())));
    }
    let real = dir.canonicalize()?;
    if instance.path().parent() == Some(&*real) {
        return Ok(None);
    }
    let created = InstanceDir::create_at(name, &dir, None);
    created.map(Some).map_err(|e| io::Error::other(e.message().to_owned()))
}

/// Returns the directories in which servers may have registered: those of this user and, for root, of all users.
pub(crate) fn registries() -> Vec<PathBuf> {
    let mut all: Vec<_> = place().into_iter().collect();
    if is_root() && chosen().is_none() {
        let users = Path::new(OF_USERS).read_dir().into_iter().flatten().flatten();
        all.extend(users.map(|user| user.path()));
    }
    all
}

fn place() -> Option<PathBuf> {
    chosen().or_else(|| match is_root() {
        true => Some(OF_ROOT.into()),
        false => base::runtime_dir().or_else(own_runtime_dir),
    })
}

fn chosen() -> Option<PathBuf> {
    std::env::var_os("CABRANK_REGISTRY_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

fn own_runtime_dir() -> Option<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    Some(Path::new(OF_USERS).join(uid.to_string())).filter(|dir| dir.is_dir())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
