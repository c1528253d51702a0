//! The instance directory: `cabrank.<pid>` under `$XDG_RUNTIME_DIR` or the temporary directory.
//!
//! It holds the sockets of the application processes (`generation-0/backends/`), the loaders and the
//! tools' socket (`admin`). The tools find a running agent by this directory. The agent locks the
//! directory for as long as it lives: a directory without a lock is stale. The pid alone would not show
//! that, because the system may have reused it.

use crate::failure::Failure;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PREFIX: &str = "cabrank.";
/// The length of `/generation-0/backends/` and a socket's name (loader, pid, random characters).
const LONGEST_BELOW: usize = 23 + 32;
/// The size of a Unix socket's address, with its final NUL.
const SUN_PATH: usize = 108;

/// The directory of this agent. Dropping it removes the directory.
#[derive(Debug)]
pub(crate) struct InstanceDir {
    path: PathBuf,
    /// The open file that holds the lock.
    _lock: OwnedFd,
}

impl InstanceDir {
    /// Creates the directory of this process, and removes stale directories of the same user.
    pub(crate) fn create() -> Result<Self, Failure> {
        Self::create_in(&bases()[0])
    }

    fn create_in(base: &Path) -> Result<Self, Failure> {
        remove_stale(base);
        let path = base.join(format!("{PREFIX}{}", std::process::id()));
        if path.as_os_str().len() + LONGEST_BELOW >= SUN_PATH {
            return Err(Failure::other(format!(
                "the path of the instance directory is too long for Unix sockets: {}. \
                 Set XDG_RUNTIME_DIR to a shorter directory.",
                path.display()
            )));
        }
        let failed = |e: io::Error| {
            Failure::other(format!(
                "the instance directory {} cannot be created: {e}. \
                 Set XDG_RUNTIME_DIR to a directory that this user may write to.",
                path.display()
            ))
        };
        make(&path).map_err(failed)?;
        let lock = lock(&path).map_err(failed)?;
        let dir = InstanceDir { path: path.clone(), _lock: lock };
        make(&dir.generation()).map_err(failed)?;
        make(&dir.generation().join("backends")).map_err(failed)?;
        Ok(dir)
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
    /// Returns the directory that the handshake calls `generation_dir`.
    pub(crate) fn generation(&self) -> PathBuf {
        self.path.join("generation-0")
    }
    /// Returns the path of the tools' socket.
    pub(crate) fn admin_socket(&self) -> PathBuf {
        admin_socket(&self.path)
    }
    /// Removes the directory now.
    pub(crate) fn remove(&self) {
        if let Err(e) = std::fs::remove_dir_all(&self.path)
            && e.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove the instance directory {}: {e}", self.path.display());
        }
    }
}

impl Drop for InstanceDir {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns pid and directory of each running agent of this user, in order of pid.
pub(crate) fn running() -> Vec<(u32, PathBuf)> {
    let mut found: Vec<_> = bases()
        .iter()
        .flat_map(|base| ours_in(base))
        .filter(|(_, dir)| lock(dir).is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the path of the tools' socket in an instance directory.
pub(crate) fn admin_socket(dir: &Path) -> PathBuf {
    dir.join("admin")
}

/// Returns the directories that may hold instance directories. A new one goes into the first.
fn bases() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|d| d.is_dir());
    runtime.into_iter().chain([std::env::temp_dir()]).collect()
}

fn ours_in(base: &Path) -> Vec<(u32, PathBuf)> {
    let uid = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(base) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let pid = name.to_str()?.strip_prefix(PREFIX)?.parse().ok()?;
            let facts = entry.metadata().ok()?; // of the link itself, not its target
            (facts.is_dir() && (facts.uid() == uid || uid == 0)).then(|| (pid, entry.path()))
        })
        .collect()
}

fn remove_stale(base: &Path) {
    for (pid, dir) in ours_in(base) {
        let Ok(_held) = lock(&dir) else { continue };
        // A new agent's directory is unlocked for a moment, between its creation and the lock.
        let young = dir
            .metadata()
            .and_then(|m| m.modified())
            .is_ok_and(|t| t.elapsed().is_ok_and(|age| age < Duration::from_secs(5)));
        let alive = Path::new("/proc").join(pid.to_string()).exists() && pid != std::process::id();
        if !(young && alive) {
            let _ = std::fs::remove_dir_all(&dir);
        }
    }
}

/// Creates a directory with its mode, so that other users can never enter it.
fn make(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn lock(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty())?;
    rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_directory_is_private_and_removed_with_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in(base.path()).unwrap();
        let path = dir.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(dir.generation().join("backends").is_dir());
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn directories_of_dead_agents_are_removed_and_those_of_living_agents_stay() {
        let base = tempfile::tempdir().unwrap();
        let stale = base.path().join("cabrank.4194304"); // above the largest possible pid
        let alive = base.path().join("cabrank.4194305");
        std::fs::create_dir(&stale).unwrap();
        std::fs::create_dir(&alive).unwrap();
        let held = lock(&alive).unwrap();
        let _dir = InstanceDir::create_in(base.path()).unwrap();
        assert!(!stale.exists() && alive.exists());
        drop(held);
    }

    #[test]
    fn a_path_too_long_for_sockets_is_an_error_with_a_remedy() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(90));
        std::fs::create_dir(&long).unwrap();
        let failure = InstanceDir::create_in(&long).unwrap_err();
        assert!(failure.message.contains("XDG_RUNTIME_DIR"));
    }
}
