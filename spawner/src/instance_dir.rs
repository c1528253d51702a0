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
mod tests;
