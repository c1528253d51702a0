//! The name of an instance directory, the directory of its generation, and its lock.

use crate::backends::open_dir;
use rustix::fs::FlockOperation;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The number of random characters in the name.
pub(super) const RANDOM: usize = 8;

/// Returns the directory that the handshake calls `generation_dir`.
pub(super) fn generation(dir: &Path) -> PathBuf {
    dir.join("generation-0")
}

/// Locks the directory until the result is dropped. Fails at once if another server has locked it.
pub(crate) fn lock(dir: &Path) -> io::Result<OwnedFd> {
    let fd = open_dir(dir)?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    Ok(fd)
}
