//! The name of an instance directory, the directory of its generation, and its lock.

use rustix::fs::FlockOperation;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The number of random characters in the name.
pub(super) const RANDOM: usize = 8;

/// The name of the directory that the handshake calls `generation_dir`.
pub(super) const GENERATION: &str = "generation-0";

/// Returns the directory that the handshake calls `generation_dir`.
pub(super) fn generation(dir: &Path) -> PathBuf {
    dir.join(GENERATION)
}

/// Locks the open directory until it is closed. Fails at once if another server has locked it.
pub(super) fn lock_open(dir: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::flock(dir, FlockOperation::NonBlockingLockExclusive)?)
}
