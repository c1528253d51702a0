//! The file of a Unix socket: how it comes to its place, and who may remove it.
//!
//! The server makes the socket in a directory of its own beside the place, which no other user may enter. There it gets its
//! owner and its mode, and begins to listen. Then a link puts it in its place. So nobody connects before the file has
//! its rights, and no other user can exchange it meanwhile.

use crate::client::Protocol;
use crate::listen::place;
use cabrank_spawner::descriptors::unix_socket;
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use rustix::net::{self, SocketAddrUnix, SocketFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The longest path that a client can connect to.
const MAX_PATH: usize = 107;
/// The names in the directory in which the server makes a socket.
const NEW: &str = "socket";
const OLD: &str = "stale";
/// How often the server tries to take a place that others change meanwhile.
const ATTEMPTS: usize = 10;

/// A Unix socket to listen on.
#[derive(Clone, Debug)]
pub(crate) struct UnixPlace {
    /// The absolute path.
    pub(crate) path: PathBuf,
    /// The protocol of its clients.
    pub(crate) protocol: Protocol,
    pub(crate) mode: u32,
    /// The user and the group of the file; `None`: as the system chooses.
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
}

/// The file of a socket of this server. Its drop removes the file, if it still is that of this server.
#[derive(Debug)]
pub(crate) struct SocketFile {
    dir: OwnedFd,
    name: OsString,
    identity: Identity,
}

type Identity = (u64, u64);

fn identity(facts: &Stat) -> Identity {
    (facts.st_dev, facts.st_ino)
}

fn is_socket(facts: &Stat) -> bool {
    FileType::from_raw_mode(facts.st_mode).is_socket()
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let there = fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|facts| is_socket(&facts) && identity(&facts) == self.identity)
            && let Err(e) = fs::unlinkat(&self.dir, &self.name, AtFlags::empty())
        {
            tracing::warn!("cannot remove the socket {}: {e}", self.name.display());
        }
    }
}

/// Listens on a Unix socket, with at most `backlog` connections that wait. A socket without a listener is replaced.
///
/// # Errors
/// Another program listens there, another file stands there, or the server has no right to do so.
pub(crate) fn listen(at: &UnixPlace, backlog: i32) -> io::Result<(UnixListener, SocketFile)> {
    if at.path.as_os_str().as_bytes().len() > MAX_PATH {
        return Err(io::Error::other(format!(
            "the path is longer than {MAX_PATH} bytes, so no client could connect: choose a shorter one"
        )));
    }
    let (dir, name) = place::open(&at.path)?;
    let workshop = Workshop::make(&dir)?;
    let socket = workshop.socket(at)?;
    net::listen(&socket, backlog)?;
    let facts = fs::statat(&workshop.own, NEW, AtFlags::SYMLINK_NOFOLLOW)?;
    workshop.put(&name)?;
    drop(workshop);
    Ok((socket.into(), SocketFile { dir, name, identity: identity(&facts) }))
}

const SWAPPED: &str = "another user changes the directory meanwhile";

/// A directory beside the place of a socket, which only this user may enter.
struct Workshop<'a> {
    dir: &'a OwnedFd,
    name: String,
    own: OwnedFd,
}

impl<'a> Workshop<'a> {
    fn make(dir: &'a OwnedFd) -> io::Result<Workshop<'a>> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!(".cabrank.{:016x}", u64::from_ne_bytes(random));
        fs::mkdirat(dir, &name, Mode::RWXU)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let own = fs::openat(dir, &name, flags, Mode::empty())?;
        let facts = fs::fstat(&own)?;
        let ours = rustix::process::geteuid().as_raw();
        if facts.st_uid != ours || facts.st_mode & 0o077 != 0 {
            return Err(io::Error::other(SWAPPED));
        }
        // Another directory of this user may have been put there. It stays as it is, unless it is empty as the new one is.
        if !is_empty(&own)? {
            return Err(io::Error::other(SWAPPED));
        }
        Ok(Workshop { dir, name, own })
    }

    /// Makes the socket, with its owner and its mode.
    fn socket(&self, at: &UnixPlace) -> io::Result<OwnedFd> {
        let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let path = format!("/proc/self/fd/{}/{NEW}", self.own.as_raw_fd());
        net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        if at.owner.is_some() || at.group.is_some() {
            let (owner, group) = (at.owner.map(Uid::from_raw), at.group.map(Gid::from_raw));
            fs::chownat(&self.own, NEW, owner, group, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| {
                io::Error::new(
                    e.kind(),
                    format!("{e}: this user may not give the file the owner or group of --socket-owner and --socket-group"),
                )
            })?;
        }
        fs::chmodat(&self.own, NEW, Mode::from_raw_mode(at.mode), AtFlags::empty())?;
        Ok(socket)
    }

    /// Puts the socket in its place, unless something else is there that lives or is no socket.
    fn put(&self, name: &OsStr) -> io::Result<()> {
        for _ in 0..ATTEMPTS {
            // A link never replaces another file.
            match fs::linkat(&self.own, NEW, self.dir, name, AtFlags::empty()) {
                Err(Errno::EXIST) => self.clear(name)?,
                linked => return Ok(linked?),
            }
        }
        Err(io::Error::other("another program changes the file all the time"))
    }

    /// Removes a socket on which no program listens.
    fn clear(&self, name: &OsStr) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // While the file is open, no other one gets its number.
        let there = match fs::openat(self.dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            opened => opened?,
        };
        let facts = fs::fstat(&there)?;
        if !is_socket(&facts) {
            let what = "a file that is no socket stands there, which the server does not remove";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
        }
        if has_listener(&there)? {
            return Err(Errno::ADDRINUSE.into());
        }
        match fs::renameat(self.dir, name, &self.own, OLD) {
            Err(Errno::NOENT) => return Ok(()),
            moved => moved?,
        }
        let moved = fs::statat(&self.own, OLD, AtFlags::SYMLINK_NOFOLLOW)?;
        if identity(&moved) == identity(&facts) {
            return Ok(fs::unlinkat(&self.own, OLD, AtFlags::empty())?);
        }
        // Another program has put its own file there meanwhile, and gets it back.
        let flags = fs::RenameFlags::NOREPLACE;
        Ok(fs::renameat_with(&self.own, OLD, self.dir, name, flags)?)
    }
}

impl Drop for Workshop<'_> {
    fn drop(&mut self) {
        let _ = fs::unlinkat(&self.own, NEW, AtFlags::empty());
        let _ = fs::unlinkat(self.dir, &self.name, AtFlags::REMOVEDIR);
    }
}

/// Returns whether a directory has no file.
fn is_empty(dir: &OwnedFd) -> io::Result<bool> {
    let inside = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in fs::Dir::new(fs::openat(dir, ".", inside, Mode::empty())?)? {
        if ![c".", c".."].contains(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether a program listens on the open file of a socket.
fn has_listener(file: &OwnedFd) -> io::Result<bool> {
    let socket = unix_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    match net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(false),
        // Its queue is full, or it is a socket of another kind, which a program holds.
        Ok(()) | Err(Errno::AGAIN | Errno::PROTOTYPE) => Ok(true),
        Err(e) => Err(io::Error::new(
            e.kind(),
            format!("{e}: the server cannot find out whether another program listens there"),
        )),
    }
}

/// Returns the remedy for a failure to listen on a Unix socket.
pub(crate) fn remedy(path: &Path, e: &io::Error) -> String {
    let dir = path.parent().unwrap_or(path).display();
    match e.kind() {
        io::ErrorKind::AddrInUse => {
            "Another program listens there: stop it, or choose another path with --socket.".into()
        }
        io::ErrorKind::NotFound => format!("Create the directory {dir}."),
        io::ErrorKind::PermissionDenied => {
            format!("Give the user of the server the right to write into {dir}.")
        }
        _ => "Choose another path with --socket.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn place(path: PathBuf) -> UnixPlace {
        UnixPlace { path, protocol: Protocol::Http1, mode: 0o660, owner: None, group: None }
    }

    /// Ends a listener, also while a child that another test forks has a copy of its descriptor.
    fn end(listener: UnixListener) {
        net::shutdown(&listener, net::Shutdown::Both).unwrap();
    }

    fn names(dir: &Path) -> Vec<OsString> {
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    /// Another user may put a private directory of this user in the place of the new one.
    #[test]
    fn a_directory_with_a_file_is_not_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = fs::open(dir.path(), flags, Mode::empty()).unwrap();
        assert!(is_empty(&opened).unwrap());
        std::fs::write(dir.path().join(NEW), "").unwrap();
        assert!(!is_empty(&opened).unwrap());
    }

    #[test]
    fn a_socket_has_its_mode_whatever_the_umask_and_ends_with_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        for mode in [0o660, 0o600, 0o666] {
            let (listener, file) = listen(&UnixPlace { mode, ..place(path.clone()) }, 9).unwrap();
            let facts = path.symlink_metadata().unwrap();
            assert!(facts.file_type().is_socket());
            assert_eq!((facts.mode() & 0o7777, facts.nlink()), (mode, 1));
            assert_eq!(names(dir.path()), ["s"]);
            UnixStream::connect(&path).unwrap();
            listener.accept().unwrap();
            drop(file);
            assert!(names(dir.path()).is_empty());
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        end(UnixListener::bind(&path).unwrap());
        let (listener, file) = listen(&place(path.clone()), 9).unwrap();
        UnixStream::connect(&path).unwrap();
        let error = listen(&place(path.clone()), 9).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        // A socket without room for another connection lives, too.
        let full = dir.path().join("full");
        let (_full, _file) = listen(&place(full.clone()), 0).unwrap();
        let _waits = UnixStream::connect(&full).unwrap();
        assert_eq!(listen(&place(full), 9).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let datagrams = dir.path().join("datagrams");
        let _datagrams = UnixDatagram::bind(&datagrams).unwrap();
        assert_eq!(listen(&place(datagrams), 9).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // The file of another server that has taken the place stays.
        end(listener);
        let (_other, _its) = listen(&place(path.clone()), 9).unwrap();
        drop(file);
        UnixStream::connect(&path).unwrap();
        assert_eq!(names(dir.path()).len(), 3);
    }

    #[test]
    fn other_files_are_neither_replaced_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let stale = dir.path().join("stale");
        end(UnixListener::bind(&stale).unwrap());
        let makes: [&dyn Fn(); 3] = [
            &|| std::fs::write(&path, "text").unwrap(),
            &|| std::fs::create_dir(&path).unwrap(),
            &|| symlink(&stale, &path).unwrap(),
        ];
        for make in makes {
            make();
            let before = path.symlink_metadata().unwrap().ino();
            let error = listen(&place(path.clone()), 9).unwrap_err();
            assert!(error.to_string().contains("no socket"), "{error}");
            assert_eq!(path.symlink_metadata().unwrap().ino(), before);
            if std::fs::remove_file(&path).is_err() {
                std::fs::remove_dir(&path).unwrap();
            }
            // Put in the place of a socket, it outlives the server.
            let (_listener, file) = listen(&place(path.clone()), 9).unwrap();
            std::fs::remove_file(&path).unwrap();
            make();
            drop(file);
            assert!(path.symlink_metadata().is_ok());
            if std::fs::remove_file(&path).is_err() {
                std::fs::remove_dir(&path).unwrap();
            }
        }
        assert!(stale.exists());
    }

    #[test]
    fn a_file_is_removed_from_its_directory_wherever_that_has_moved() {
        let dir = tempfile::tempdir().unwrap();
        let (first, then) = (dir.path().join("first"), dir.path().join("then"));
        std::fs::create_dir(&first).unwrap();
        let (_listener, file) = listen(&place(first.join("s")), 9).unwrap();
        std::fs::rename(&first, &then).unwrap();
        std::fs::create_dir(&first).unwrap();
        std::fs::write(first.join("s"), "").unwrap();
        drop(file);
        assert!(names(&then).is_empty() && first.join("s").exists());
    }

    #[test]
    fn a_path_that_no_client_can_name_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("x".repeat(108));
        assert!(listen(&place(long), 9).unwrap_err().to_string().contains("shorter"));
        let absent = dir.path().join("gone/s");
        let error = listen(&place(absent.clone()), 9).unwrap_err();
        assert!(remedy(&absent, &error).contains("Create the directory"), "{error}");
    }
}
