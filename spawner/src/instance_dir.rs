//! The instance directory: `<name>.<pid>.<random>` under `$XDG_RUNTIME_DIR` or the temporary directory.
//!
//! It holds the sockets of the application processes (`generation-0/backends/`), the loaders and the
//! tools' socket (`admin`). The tools find a running server by this directory. The server locks the
//! directory for as long as it lives: a directory without a lock is stale. The pid alone would not show
//! that, because the system may have reused it. Other users cannot predict the name, so they cannot
//! occupy it.
//!
//! # A directory that vanishes
//! Cleaners of temporary files and the end of a login session remove directories that are in use. The
//! server notices that within a second, and creates another directory. Running processes stay reachable:
//! the server holds their sockets. If it cannot create another directory, it
//! says so every minute and tries again; only new processes and the tools have to wait.
//!
//! Another user may take the name of the former directory. So the server reaches each file by the open directory,
//! and takes a socket at the former path for one of that directory, which is gone. Loaders read their own files before
//! they load the application.
//!
//! # Another user
//! With `--user`, application processes must reach their loader and their sockets. The directories then
//! let every user through but list nothing. `backends` belongs to that user, and lets no other user through.
//!
//! A server of root uses no directory in which another user may rename.
//!
//! Each mode is set on the open file or directory, because the umask of the server may take rights away.

mod base;
mod found;
mod layout;
mod registry;
mod stale;

pub(crate) use base::{all_bases, safe};
pub(crate) use found::{Base, Found};
pub use registry::register;
pub(crate) use registry::registries;

use crate::backends::{Backends, make_dir, make_dir_at, open_dir_at};
use crate::error::Error;
use crate::random;
use crate::removal::remove_tree;
use crate::user::User;
use base::bases;
use layout::{GENERATION, RANDOM, generation, lock_open};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// The length of `/generation-0/backends/` and a socket's name (loader, pid, random characters).
const LONGEST_BELOW: usize = 23 + 24;
/// The size of a Unix socket's address, with its final NUL.
const SUN_PATH: usize = 108;
/// The directory of the bodies and answers that do not fit into memory.
const BUFFERED: &str = "buffered";
/// The number of vanished directories whose sockets are recognised. Each holds a descriptor.
const FORMER: usize = 16;
/// The attempts to create a directory, each of which another start may meet.
const ATTEMPTS: usize = 16;
/// Flags that create a file, and open no file and no link that is there.
const NEW: OFlags = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::CLOEXEC);

/// The directory of this server. Dropping it removes the directory.
#[derive(Debug)]
pub struct InstanceDir(Arc<Shared>);

/// A reference to the server's directory. The directory may have been removed.
pub type Instance = Arc<Shared>;

/// The path of an [`InstanceDir`], which changes if the directory vanishes.
#[derive(Debug)]
pub struct Shared {
    name: &'static str,
    /// The user of application processes, if it is not the server's.
    user: Option<User>,
    /// Held without input or output: requests read it, and a file system may hang.
    current: Mutex<Current>,
    /// Held while the directory is restored or removed. A file system may hang meanwhile.
    upkeep: Mutex<()>,
    /// The program ends. The directory is not restored any more.
    is_ending: AtomicBool,
}

#[derive(Debug)]
struct Current {
    path: PathBuf,
    backends: Backends,
    /// Those of directories that have vanished, the latest last. Another user may have made such a directory again.
    former: VecDeque<Backends>,
    /// The open directory, which holds the lock until the program ends. No other server takes the directory for stale.
    lock: Arc<OwnedFd>,
}

/// The result of [`Shared::restore`].
#[derive(Debug, PartialEq, Eq)]
pub enum Restored {
    /// The directory was there.
    Intact,
    /// Another directory takes the place of this one.
    Instead(PathBuf),
    /// The server removes its directory, or has removed it, because it ends.
    Removed,
}

impl InstanceDir {
    /// Creates the directory of this process. Afterwards a thread removes stale directories of the same user.
    pub fn create(name: &'static str, user: Option<&User>) -> Result<Self, Error> {
        check_umask()?;
        base::report_ignored(user);
        let base = bases(user).swap_remove(0);
        Self::create_at(name, &base, user)
    }

    fn create_at(name: &'static str, base: &Path, user: Option<&User>) -> Result<Self, Error> {
        let dir = Self::create_in(name, base, user)?;
        // The path of the new directory has no links: the owner of a link may let it lead elsewhere by now.
        if let Some(Ok(base)) = dir.0.path().parent().map(Base::open) {
            stale::remove_in_background(name, base);
        }
        Ok(dir)
    }

    fn create_in(name: &'static str, base: &Path, user: Option<&User>) -> Result<Self, Error> {
        let unusable = |e: io::Error| {
            Error::other(format!(
                "cannot create an instance directory in {}: {e}. \
                 Set {} to another directory.",
                base.display(),
                if user.is_some() { "TMPDIR" } else { "XDG_RUNTIME_DIR" },
            ))
        };
        let real = base::safe(base, user).map_err(unusable)?;
        let longest = format!("{name}.{}.{}", i32::MAX, "x".repeat(RANDOM));
        if real.join(&longest).as_os_str().len() + LONGEST_BELOW >= SUN_PATH {
            return Err(Error::other(format!(
                "the path of an instance directory in {} is too long for Unix sockets. \
                 Set XDG_RUNTIME_DIR to a shorter directory.",
                real.display()
            )));
        }
        let current = establish(name, &real, user).map_err(unusable)?;
        let dir = Shared {
            name,
            user: user.cloned(),
            current: Mutex::new(current),
            upkeep: Mutex::default(),
            is_ending: AtomicBool::new(false),
        };
        Ok(InstanceDir(Arc::new(dir)))
    }

    /// Returns a reference that does not keep the directory.
    pub fn shared(&self) -> Instance {
        Arc::clone(&self.0)
    }

    /// Removes the directory now. The function blocks, while the directory is restored and while its file system hangs.
    pub fn remove(&self) {
        self.0.end();
        let _upkeep = self.0.upkeep();
        let path = self.0.path();
        if let Err(e) = remove_tree(&path)
            && e.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove the instance directory {}: {e}", path.display());
        }
    }
}

impl Drop for InstanceDir {
    fn drop(&mut self) {
        if !self.0.is_ending() {
            self.remove();
        }
    }
}

impl Shared {
    fn current(&self) -> MutexGuard<'_, Current> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid path.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the upkeep of the directory. The function blocks while another thread has it.
    pub fn upkeep(&self) -> Upkeep<'_> {
        let alone = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner);
        Upkeep { of: self, _alone: alone }
    }

    /// Lets no further upkeep begin. Somebody else removes the directory.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Returns whether no thread has the upkeep.
    pub(crate) fn is_at_rest(&self) -> bool {
        !matches!(self.upkeep.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> PathBuf {
        self.current().path.clone()
    }
    /// Returns the path of the directory of [`buffer`](Self::buffer)'s files.
    pub fn buffered(&self) -> PathBuf {
        self.path().join(BUFFERED)
    }
    /// Creates a file for bytes that do not fit into memory. It has no name, so that it ends with the server. The function blocks.
    ///
    /// # Errors
    /// The file cannot be created, for example because the directory has vanished.
    pub fn buffer(&self) -> io::Result<File> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}.{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = self.open_part(BUFFERED)?;
        let flags = OFlags::RDWR | NEW;
        let file = rustix::fs::openat(&dir, &*name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::unlinkat(&dir, name, AtFlags::empty())?;
        Ok(file.into())
    }
    /// Opens a part of the directory, and creates it if it is missing.
    fn open_part(&self, name: &str) -> io::Result<OwnedFd> {
        part_of(&self.open(), name, None)
    }
    /// Returns the open directory. Nobody can take its place.
    pub fn open(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.current().lock)
    }
    /// Returns the directory that the handshake calls `generation_dir`.
    pub fn generation(&self) -> PathBuf {
        generation(&self.path())
    }
    /// Returns the directory of the sockets of application processes.
    pub(crate) fn backends(&self) -> Backends {
        self.current().backends.clone()
    }
    /// Returns the directory of sockets in which a process has put this one, if it is one of the server's, or the present one.
    pub(crate) fn backends_of(&self, socket: &Path) -> Backends {
        let current = self.current();
        let former = current.former.iter().find(|former| socket.parent() == Some(former.path()));
        former.unwrap_or(&current.backends).clone()
    }
    /// Writes a file into the directory, unless it is there. The function blocks.
    ///
    /// The file appears with its whole text. Another process may be starting, and a disk may be full, so a file
    /// that is written in place could be found incomplete.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn install(&self, name: &str, text: &str) -> io::Result<()> {
        let dir = self.open();
        match rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            there => return Ok(there.map(drop)?),
        }
        let unfinished = format!("{name}.{}", random::characters(RANDOM));
        let written = write_new(&dir, &unfinished, text)
            .and_then(|()| Ok(rustix::fs::renameat(&dir, &*unfinished, &dir, name)?));
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&dir, unfinished, AtFlags::empty());
        }
        written
    }

    /// Creates the directory or parts of it again if they are gone. The function blocks.
    ///
    /// # Errors
    /// No directory can be created.
    pub fn restore(&self) -> io::Result<Restored> {
        self.upkeep().restore()
    }
}

/// The right to change the directory. The server does not remove it meanwhile.
#[derive(Debug)]
pub struct Upkeep<'a> {
    of: &'a Shared,
    _alone: MutexGuard<'a, ()>,
}

impl Upkeep<'_> {
    /// As [`Shared::restore`].
    ///
    /// # Errors
    /// As [`Shared::restore`].
    pub fn restore(&self) -> io::Result<Restored> {
        let restored = self.of.restore_alone()?;
        if let Restored::Instead(vanished) = &restored {
            tracing::warn!(
                "the instance directory {} has been removed; {} takes its place",
                vanished.display(),
                self.of.path().display()
            );
        }
        Ok(restored)
    }
}

impl Shared {
    /// Restores the directory. The caller has begun the upkeep.
    fn restore_alone(&self) -> io::Result<Restored> {
        let (path, lock) = {
            let current = self.current();
            (current.path.clone(), current.lock.clone())
        };
        if self.is_ending() {
            return Ok(Restored::Removed);
        }
        if is_at(&lock, &path) {
            let backends = furnish(&lock, &path, self.user.as_ref())?;
            // The old descriptor is closed without the lock.
            let _old = std::mem::replace(&mut self.current().backends, backends);
            return Ok(Restored::Intact);
        }
        let old = path.parent().map(Path::to_owned);
        let bases = bases(self.user.as_ref());
        // Another user may have made the old one again.
        let old = old.filter(|old| bases.contains(old) || base::foreign(old).is_none());
        let bases = old.into_iter().chain(bases);
        let mut result = Err(io::ErrorKind::NotFound.into());
        for base in bases {
            result = establish(self.name, &base, self.user.as_ref());
            if result.is_ok() {
                break;
            }
        }
        let mut new = result?;
        let mut current = self.current();
        let mut former = std::mem::take(&mut current.former);
        former.push_back(current.backends.clone());
        let dropped = if former.len() > FORMER { former.pop_front() } else { None };
        new.former = former;
        let vanished = std::mem::replace(&mut *current, new);
        drop(current);
        drop(dropped); // closed without the lock
        Ok(Restored::Instead(vanished.path))
    }
}

/// Fails if the umask takes rights away from the owner of a new file, which only root has nevertheless.
///
/// No process of this user could connect to the sockets of another one.
fn check_umask() -> Result<(), Error> {
    let umask = procfs::process::Process::myself().and_then(|own| own.status());
    let umask = umask.ok().and_then(|status| status.umask).unwrap_or(0);
    if umask & 0o700 == 0 || rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the umask {umask:03o} takes rights away from the owner of new files, so no socket would be reachable. Set \
         another one, such as 027."
    )))
}

/// Creates a directory with its parts, and locks it.
fn establish(name: &str, base: &Path, user: Option<&User>) -> io::Result<Current> {
    let base = base::safe(base, user)?;
    for _ in 1..ATTEMPTS {
        match establish_at(&base, name, user) {
            // Another start may look at the directory before the lock, and may take it for stale.
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {}
            established => return established,
        }
    }
    establish_at(&base, name, user)
}

fn establish_at(base: &Path, name: &str, user: Option<&User>) -> io::Result<Current> {
    let (path, dir) = loop {
        let file = format!("{name}.{}.{}", std::process::id(), random::characters(RANDOM));
        let path = base.join(file);
        match make_dir(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            made => break (path, let_enter(made?, user)?),
        }
    };
    let parts = lock_open(&dir).and_then(|()| furnish(&dir, &path, user));
    let backends = parts.inspect_err(|_| {
        let _ = remove_tree(&path);
    })?;
    Ok(Current { path, backends, former: VecDeque::new(), lock: Arc::new(dir) })
}

/// Creates the parts of an open instance directory that do not exist. Returns the directory of sockets.
fn furnish(dir: &OwnedFd, path: &Path, user: Option<&User>) -> io::Result<Backends> {
    part_of(dir, BUFFERED, None)?;
    let generation_dir = part_of(dir, GENERATION, user)?;
    Backends::open(generation_dir, generation(path).join("backends"), user)
}

/// Opens a part of an open directory. Creates it if it is missing: then `user` may enter it.
fn part_of(dir: &OwnedFd, name: &str, user: Option<&User>) -> io::Result<OwnedFd> {
    // A look first: on a file system that is frozen each attempt to write hangs, and no signal ends it.
    match open_dir_at(dir, name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match make_dir_at(dir, name.as_ref()) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => open_dir_at(dir, name),
        made => let_enter(made?, user),
    }
}

/// Lets `user` enter a directory that other users can never list.
fn let_enter(dir: OwnedFd, user: Option<&User>) -> io::Result<OwnedFd> {
    if user.is_some() {
        rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o711))?;
    }
    Ok(dir)
}

fn write_new(dir: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let file = rustix::fs::openat(dir, name, OFlags::WRONLY | NEW, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644))?;
    File::from(file).write_all(text.as_bytes())
}

/// Returns whether `path` leads to the open directory.
fn is_at(dir: &OwnedFd, path: &Path) -> bool {
    let Ok(there) = path.symlink_metadata() else { return false };
    rustix::fs::fstat(dir).is_ok_and(|d| (d.st_dev, d.st_ino) == (there.dev(), there.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_directory_is_private_and_removed_with_its_owner() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        let path = dir.shared().path();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(dir.shared().generation().join("backends").is_dir());
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn directories_of_dead_servers_are_removed_and_those_of_living_servers_stay() {
        let base = tempfile::tempdir().unwrap();
        // Above the largest possible pid.
        let [dead, empty, alive] = ["4194304.abcdefgh", "4194305.abcdefgh", "4194306.abcdefgh"]
            .map(|rest| base.path().join(format!("cabrank.{rest}")));
        let foreign =
            ["4194304.abcdefg", "4194304.abcdefgh.x", "4194304.abcdef-h", "20261127", "x.abcdefgh"]
                .map(|rest| base.path().join(format!("cabrank.{rest}")));
        let unlike = base.path().join("cabrank.4194307.abcdefgh");
        for dir in [&dead, &alive].into_iter().chain(&foreign) {
            std::fs::create_dir_all(generation(dir)).unwrap();
        }
        std::fs::create_dir(&empty).unwrap();
        std::fs::create_dir_all(unlike.join("data")).unwrap();
        let held = crate::backends::open_dir(&alive).unwrap();
        lock_open(&held).unwrap();
        let _dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        stale::remove("cabrank", &Base::open(base.path()).unwrap());
        assert!(!dead.exists() && !empty.exists() && alive.exists() && unlike.exists());
        assert!(foreign.iter().all(|dir| dir.exists()));
        drop(held);
    }

    /// The other start takes each directory without a lock for stale: the pid of its own process names no other server.
    #[test]
    fn a_start_that_meets_another_between_directory_and_lock_creates_another_directory() {
        let base = tempfile::tempdir().unwrap();
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let base = Base::open(base.path()).unwrap();
                while !is_done.load(Ordering::Relaxed) {
                    stale::remove("cabrank", &base);
                }
            });
            let made: Result<Vec<_>, _> = (0..500)
                .map(|_| InstanceDir::create_in("cabrank", base.path(), None).map(drop))
                .collect();
            is_done.store(true, Ordering::Relaxed);
            made.expect("each start creates a directory");
        });
    }

    #[test]
    fn a_path_too_long_for_sockets_is_an_error_with_a_remedy() {
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(90));
        std::fs::create_dir(&long).unwrap();
        let failure = InstanceDir::create_in("cabrank", &long, None).unwrap_err();
        assert!(failure.message().contains("XDG_RUNTIME_DIR"));
    }

    /// Writes one file from many threads at once. Each reads it when its own call has returned.
    #[test]
    fn an_installed_file_is_never_incomplete() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        let (shared, text) = (dir.shared(), "x".repeat(1 << 24));
        for round in 0..5 {
            let name = format!("loader.{round}");
            let all = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        all.wait();
                        shared.install(&name, &text).unwrap();
                        assert_eq!(
                            std::fs::read(shared.path().join(&name)).unwrap().len(),
                            text.len()
                        );
                    });
                }
            });
        }
        let files = std::fs::read_dir(shared.path()).unwrap().filter_map(Result::ok);
        assert_eq!(files.filter(|f| f.file_type().unwrap().is_file()).count(), 5);
        let long = "x".repeat(300); // longer than a name may be
        assert!(shared.install(&long, "").is_err());
    }

    #[test]
    fn a_buffer_is_private_and_has_no_name() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        let buffered = dir.shared().buffered();
        for _ in 0..2 {
            let file = dir.shared().buffer().unwrap();
            let mode = |of: std::fs::Metadata| of.permissions().mode() & 0o777;
            assert_eq!(mode(file.metadata().unwrap()), 0o600);
            assert_eq!(mode(buffered.metadata().unwrap()), 0o700);
            // Empty, so that it can be removed. The next buffer makes it again.
            std::fs::remove_dir(&buffered).unwrap();
        }
    }

    #[test]
    fn nothing_is_written_or_found_where_a_vanished_directory_was() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        let shared = dir.shared();
        let (first, old) = (shared.path(), shared.backends().path().to_owned());
        std::fs::remove_dir_all(&first).unwrap();
        std::fs::create_dir_all(&old).unwrap(); // another user's
        std::fs::create_dir(first.join(BUFFERED)).unwrap();
        let names = |path: &Path| std::fs::read_dir(path).unwrap().count();
        assert!(shared.install("loader", "").is_err());
        assert!(shared.buffer().is_err());
        assert_eq!((names(&first), names(&first.join(BUFFERED))), (2, 0));
        let socket = old.join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for _ in 0..2 {
            let backends = shared.backends_of(&socket);
            assert!(backends.open_path(backends.name_in(&socket).unwrap()).is_err());
            shared.restore().unwrap();
        }
        shared.buffer().unwrap();
    }

    #[test]
    fn names_differ_between_servers_of_one_pid() {
        let base = tempfile::tempdir().unwrap();
        let [one, other] =
            [(); 2].map(|()| InstanceDir::create_in("cabrank", base.path(), None).unwrap());
        assert_ne!(one.shared().path(), other.shared().path());
    }

    #[test]
    fn a_directory_that_vanished_is_replaced_until_the_server_removes_it() {
        let base = tempfile::tempdir().unwrap();
        let dir = InstanceDir::create_in("cabrank", base.path(), None).unwrap();
        let shared = dir.shared();
        let first = shared.path();
        assert_eq!(shared.restore().unwrap(), Restored::Intact);
        std::fs::remove_dir(shared.generation().join("backends")).unwrap();
        assert_eq!(shared.restore().unwrap(), Restored::Intact);
        assert!(shared.generation().join("backends").is_dir());
        std::fs::remove_dir_all(&first).unwrap();
        std::fs::write(&first, "another file of that name").unwrap();
        assert_eq!(shared.restore().unwrap(), Restored::Instead(first.clone()));
        assert!(shared.path() != first && shared.generation().join("backends").is_dir());
        // Whatever the upkeep makes in the directory is removed with it.
        let second = shared.path();
        std::thread::scope(|scope| {
            let upkeep = shared.upkeep();
            assert_eq!(upkeep.restore().unwrap(), Restored::Intact);
            let removal = scope.spawn(|| dir.remove());
            std::fs::write(second.join("admin"), "").unwrap();
            assert!(!removal.is_finished());
            // Requests read the place meanwhile.
            assert_eq!(shared.buffered(), second.join(BUFFERED));
            drop(upkeep);
        });
        assert_eq!(shared.restore().unwrap(), Restored::Removed);
        assert!(!shared.path().exists());
    }
}
