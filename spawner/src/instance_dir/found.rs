//! The directories with the name of an instance directory.
//!
//! Another user may give such a name to another directory at any time. So each directory is opened once, and each look
//! at it, its lock and its removal use the open one.

use super::layout::{RANDOM, lock_open};
use crate::backends::{Identity, identity, open_dir_at};
use rustix::fs::{Dir, Mode, OFlags};
use std::ffi::CStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An open directory that may hold instance directories.
#[derive(Debug)]
pub(crate) struct Base {
    path: PathBuf,
    pub(super) dir: OwnedFd,
}

/// A directory with the name of an instance directory.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) pid: u32,
    /// Its name in its base.
    pub(super) name: String,
    pub(crate) path: PathBuf,
    pub(super) dir: File,
    facts: Metadata,
}

impl Base {
    /// Opens a directory by a path that may have links.
    pub(crate) fn open(path: &Path) -> io::Result<Base> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Base { path: path.into(), dir: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Returns the directories in this one whose name begins with `name`. Each is opened when its turn comes.
    pub(crate) fn found(&self, name: &str) -> impl Iterator<Item = Found> {
        let entries = Dir::read_from(&self.dir).into_iter().flatten().flatten();
        entries.filter_map(move |entry| self.find(name, entry.file_name()))
    }

    fn find(&self, name: &str, file: &CStr) -> Option<Found> {
        let file = file.to_str().ok()?;
        let (pid, random) = file.strip_prefix(name)?.strip_prefix('.')?.split_once('.')?;
        // Each other directory of a similar name is somebody's own.
        let is_random = random.len() == RANDOM && random.bytes().all(|b| b.is_ascii_alphanumeric());
        let pid = pid.parse().ok().filter(|_| is_random && !pid.starts_with('+'))?;
        let dir = File::from(open_dir_at(&self.dir, file).ok()?);
        let facts = dir.metadata().ok()?;
        Some(Found { pid, name: file.into(), path: self.path.join(file), dir, facts })
    }
}

impl Found {
    pub(crate) fn uid(&self) -> u32 {
        self.facts.uid()
    }

    /// Returns whether its group or every user may write to it. No server's own directory is like that.
    pub(super) fn is_open_to_others(&self) -> bool {
        self.facts.mode() & 0o022 != 0
    }

    /// Returns whether its group or every user may open it, and so lock it. No server's own directory is like that.
    pub(crate) fn is_visible_to_others(&self) -> bool {
        self.facts.mode() & 0o066 != 0
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        identity(&self.dir)
    }

    /// Locks the directory until this value is dropped. Fails at once if a server has locked it.
    pub(crate) fn lock(&self) -> io::Result<()> {
        lock_open(&self.dir)
    }
}
