//! The socket of a process, held open so that it stays reachable after its file is removed.
//!
//! Connecting to a path fails once the file is gone. The server opens the file instead (`O_PATH`, which
//! does not connect) and connects through the kernel's link to the open file, `/proc/self/fd/N`. So a
//! cleaner of temporary files does not cut off running processes.

use rustix::fs::{FileType, Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A Unix socket that another process listens on.
#[derive(Debug)]
pub(crate) struct HeldSocket {
    path: PathBuf,
    file: OwnedFd,
}

impl HeldSocket {
    /// Opens the file of a socket, after checking that it is a socket of this user.
    ///
    /// # Errors
    /// The problem, in words that name the path.
    pub(crate) fn open(path: &Path, uid: u32) -> Result<HeldSocket, String> {
        let failed = |e| format!("the socket {}: {e}", path.display());
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
        let facts = rustix::fs::fstat(&file).map_err(failed)?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::Socket || facts.st_uid != uid {
            return Err(format!("{} is not a socket of the application's user", path.display()));
        }
        Ok(HeldSocket { path: path.to_owned(), file })
    }

    /// Returns the path to connect to. It is valid as long as this value exists.
    pub(crate) fn address(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Removes the file, if it is still there. The function blocks.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_removed_socket_is_still_reachable() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let held = HeldSocket::open(&path, uid).unwrap();
        drop(dir);
        assert!(UnixStream::connect(&path).is_err());
        UnixStream::connect(held.address()).unwrap();
    }

    #[test]
    fn other_files_and_sockets_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let uid = rustix::process::geteuid().as_raw();
        assert!(HeldSocket::open(&path, uid + 1).unwrap_err().contains("not a socket of"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(HeldSocket::open(&link, uid).is_err());
        assert!(HeldSocket::open(&dir.path().join("gone"), uid).unwrap_err().contains("gone"));
    }
}
