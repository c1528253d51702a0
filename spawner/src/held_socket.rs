//! The socket of a process, held open so that it stays reachable after its file is removed.
//!
//! Connecting to a path fails once the file is gone. The server opens the file instead (`O_PATH`, which
//! does not connect) and connects through the kernel's link to the open file, `/proc/self/fd/N`. So a
//! cleaner of temporary files does not cut off running processes.

use crate::backends::{Backends, Identity};
use crate::descriptors::unix_socket;
use crate::handshake::Address;
use crate::stream::check_listener;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A Unix socket that another process listens on.
#[derive(Debug)]
pub(crate) struct HeldSocket {
    file: OwnedFd,
    identity: Identity,
    /// The user that may listen, if it is not the server's.
    uid: Option<u32>,
    /// The directory of sockets and the file's name, if the file is there. The application removes other files itself.
    place: Option<(Backends, OsString)>,
}

impl HeldSocket {
    /// Opens the file of a socket, after checking that it is a socket of this user.
    ///
    /// # Errors
    /// The problem, in words that name the path.
    pub(crate) fn open(path: &Path, uid: u32, backends: &Backends) -> Result<HeldSocket, String> {
        let absent = || format!("the socket {}: there is no such file", path.display());
        HeldSocket::find(path, uid, backends)?.ok_or_else(absent)
    }

    /// Opens the file of a socket, as [`open`](Self::open) does, if the file exists.
    pub(crate) fn find(
        path: &Path,
        uid: u32,
        backends: &Backends,
    ) -> Result<Option<HeldSocket>, String> {
        let failed = |e: io::Error| format!("the socket {}: {e}", path.display());
        let name = backends.name_in(path);
        // This opening has no effect on a file elsewhere, and the checks follow on the same file.
        let opened = match name {
            Some(name) => backends.open_path(name),
            None => backends.open_elsewhere(path),
        };
        let file = match opened {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let facts = rustix::fs::fstat(&file).map_err(|e| failed(e.into()))?;
        if FileType::from_raw_mode(facts.st_mode) != FileType::Socket || facts.st_uid != uid {
            return Err(format!("{} is not a socket of the application's user", path.display()));
        }
        let place = name.map(|name| (backends.clone(), name.to_owned()));
        let uid = (uid != rustix::process::geteuid().as_raw()).then_some(uid);
        Ok(Some(HeldSocket { file, identity: Identity::of(&facts), uid, place }))
    }

    /// Returns the address to connect to. It is valid as long as this value exists.
    pub(crate) fn address(&self) -> Address {
        match self.uid {
            None => Address::Unix(self.path()),
            Some(uid) => Address::UnixOf(self.path(), uid),
        }
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Connects, and waits for no longer than `limit` while the queue of the listener is full.
    ///
    /// # Errors
    /// `WouldBlock`: the queue has been full for this time. `Other`: another user listens. Others: there is no listener.
    pub(crate) fn connect(&self, limit: Duration) -> io::Result<UnixStream> {
        const PAUSE: Duration = Duration::from_millis(10);
        let end = Instant::now() + limit;
        let address = SocketAddrUnix::new(self.path())?;
        let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        loop {
            match rustix::net::connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::AGAIN) if Instant::now() < end => std::thread::sleep(PAUSE),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        check_listener(&socket, self.uid)?;
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }

    /// Removes the file, if it is still in the directory of sockets. The function blocks.
    pub(crate) fn remove(&self) {
        if let Some((backends, name)) = &self.place {
            backends.remove(name, self.identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Returns a directory with a directory of sockets, and the socket `socket` in it.
    fn socket() -> (tempfile::TempDir, Backends, PathBuf, UnixListener) {
        let dir = tempfile::tempdir().unwrap();
        let place = crate::backends::open_dir(dir.path()).unwrap();
        let backends = Backends::open(place, dir.path().join("backends"), None).unwrap();
        let path = backends.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        (dir, backends, path, listener)
    }

    fn uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn a_removed_socket_is_still_reachable() {
        let (dir, backends, path, _listener) = socket();
        let held = HeldSocket::open(&path, uid(), &backends).unwrap();
        drop(dir);
        assert!(UnixStream::connect(&path).is_err());
        UnixStream::connect(held.path()).unwrap();
        held.remove();
    }

    #[test]
    fn a_listener_with_a_full_queue_holds_up_its_caller_for_a_time_only() {
        let (_dir, backends, path, _) = socket();
        std::fs::remove_file(&path).unwrap();
        let listener = unix_socket(SocketFlags::CLOEXEC).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let held = HeldSocket::open(&path, uid(), &backends).unwrap();
        let _first = held.connect(Duration::ZERO).unwrap();
        for limit in [Duration::ZERO, Duration::from_millis(30)] {
            assert_eq!(held.connect(limit).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        drop(listener);
        assert_eq!(
            held.connect(Duration::ZERO).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
    }

    #[test]
    fn other_files_and_sockets_of_others_are_refused() {
        let (dir, backends, path, _listener) = socket();
        let open = |path: &Path, uid| HeldSocket::open(path, uid, &backends);
        assert!(open(&path, uid() + 1).unwrap_err().contains("not a socket of"));
        for link in [dir.path().join("link"), backends.path().join("link")] {
            std::os::unix::fs::symlink(&path, &link).unwrap();
            assert!(open(&link, uid()).is_err());
        }
        assert!(open(&dir.path().join("gone"), uid()).unwrap_err().contains("gone"));
        assert!(open(&backends.path().join("gone"), uid()).unwrap_err().contains("gone"));
    }

    #[test]
    fn only_a_socket_in_the_directory_of_sockets_is_removed() {
        let (dir, backends, path, _listener) = socket();
        HeldSocket::open(&path, uid(), &backends).unwrap().remove();
        assert!(!path.exists());
        let elsewhere = dir.path().join("socket");
        let _listener = UnixListener::bind(&elsewhere).unwrap();
        HeldSocket::open(&elsewhere, uid(), &backends).unwrap().remove();
        assert!(elsewhere.exists());
    }
}
