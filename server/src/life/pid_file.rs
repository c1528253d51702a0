//! The pid file of `--pid-file`.
//!
//! The server writes a new file beside the place, and renames it. So a reader finds the whole pid, and a link in the
//! place is replaced and not followed. Only a pid file is replaced, and only if its process is no server that runs.

use crate::failure::Failure;
use crate::listen::place;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The longest text of a pid file.
const LONGEST: u64 = 32;

/// The pid file of this server. Its drop removes the file, if it still is that of this server.
#[derive(Debug)]
pub(crate) struct PidFile {
    dir: OwnedFd,
    name: OsString,
    identity: (u64, u64),
}

impl PidFile {
    /// Writes the pid of this process to a file at an absolute path.
    ///
    /// # Errors
    /// Another server has the file, another file stands there, or the server has no right to write there.
    pub(crate) fn write(path: &Path) -> Result<PidFile, Failure> {
        PidFile::try_write(path).map_err(|e| {
            let parent = path.parent().filter(|parent| !parent.exists());
            let remedy = match parent {
                Some(parent) => format!("Create the directory {}, or choose", parent.display()),
                None if e.kind() == io::ErrorKind::AlreadyExists => {
                    "Wait until it has ended, as `cabrank stop --wait` does, or choose".into()
                }
                None => "Choose".into(),
            };
            Failure::other(format!(
                "cannot write the pid file {}: {e}. {remedy} another path with --pid-file.",
                path.display()
            ))
        })
    }

    fn try_write(path: &Path) -> io::Result<PidFile> {
        let (dir, name) = place::open(path)?;
        check(&dir, &name)?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let new = format!(".cabrank.{:016x}", u64::from_ne_bytes(random));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(fs::openat(&dir, &new, flags, Mode::RUSR | Mode::WUSR)?);
        let written = file
            .write_all(format!("{}\n", std::process::id()).as_bytes())
            .and_then(|()| Ok(fs::fchmod(&file, Mode::from_raw_mode(0o644))?))
            .and_then(|()| Ok(fs::renameat(&dir, &new, &dir, &name)?))
            .and_then(|()| Ok(fs::fstat(&file)?));
        match written {
            Ok(facts) => Ok(PidFile { dir, name, identity: (facts.st_dev, facts.st_ino) }),
            Err(e) => {
                let _ = fs::unlinkat(&dir, &new, AtFlags::empty());
                Err(e)
            }
        }
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let there = fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|facts| (facts.st_dev, facts.st_ino) == self.identity)
            && let Err(e) = fs::unlinkat(&self.dir, &self.name, AtFlags::empty())
        {
            tracing::warn!("cannot remove the pid file {}: {e}", self.name.display());
        }
    }
}

/// Checks that nothing stands in the place, or the pid file of a server that is gone.
fn check(dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    // No pipe is waited for.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let no_pid = || io::Error::other("a file that is no pid file stands there");
    let file = match fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::LOOP | Errno::NXIO) => return Err(no_pid()),
        opened => opened?,
    };
    let facts = fs::fstat(&file)?;
    if !FileType::from_raw_mode(facts.st_mode).is_file() {
        return Err(no_pid());
    }
    let mut bytes = Vec::new();
    File::from(file).take(LONGEST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    // A server that was killed, or a disk that was full, may have left an empty one.
    if text.trim().is_empty() {
        return Ok(());
    }
    let pid: u32 = text.trim().parse().map_err(|_| no_pid())?;
    if pid != std::process::id() && is_server_of(pid, facts.st_uid) {
        let text = format!("the server {pid}, which is running, has this file");
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    Ok(())
}

/// Returns whether the process is a server of this user.
///
/// A process of another user may have taken the number of a server that is gone, and its name, also by a program with the
/// set-user-ID bit.
fn is_server_of(pid: u32, user: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    is_alone(&status, user) && is_server(&program)
}

/// Returns whether the process of `/proc/PID/status` has the rights of this user alone.
fn is_alone(status: &str, user: u32) -> bool {
    // The owner of `/proc/PID` would be root for a program that its user may not read.
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let mut users = users.split_whitespace();
    users.clone().count() == 4 && users.all(|number| number.parse() == Ok(user))
}

/// Returns whether a program is a server by its name. It may have been replaced since.
fn is_server(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name) == "cabrank"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn a_process_of_another_user_is_not_the_server() {
        let of = |users: &str| format!("Name:\tcabrank\nState:\tS\nUid:\t{users}\n");
        assert!(is_alone(&of("0\t0\t0\t0"), 0));
        assert!(is_alone(&of("33\t33\t33\t33"), 33));
        // A program with the set-user-ID bit.
        assert!(!is_alone(&of("33\t0\t0\t0"), 0));
        assert!(!is_alone(&of("33\t33\t33\t33"), 0));
        assert!(!is_alone("", 0));
        assert!(is_server(Path::new("/usr/bin/cabrank")));
        assert!(is_server(Path::new("/usr/bin/cabrank (deleted)")));
        assert!(!is_server(Path::new("/usr/bin/su")) && !is_server(Path::new("")));
    }

    fn entries(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    #[test]
    fn a_pid_file_is_whole_readable_and_removed_with_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        for stale in [None, Some("4194304\n"), Some(""), Some("1")] {
            if let Some(text) = stale {
                std::fs::write(&path, text).unwrap();
            }
            let file = PidFile::write(&path).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("{}\n", std::process::id()));
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o644);
            drop(file);
            assert_eq!(entries(dir.path()), 0);
        }
    }

    #[test]
    fn another_file_is_neither_replaced_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "text").unwrap();
        std::fs::copy(&precious, &path).unwrap();
        assert!(PidFile::write(&path).unwrap_err().message.contains("no pid file"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        std::fs::remove_file(&path).unwrap();
        symlink(&precious, &path).unwrap();
        assert!(PidFile::write(&path).unwrap_err().message.contains("no pid file"));
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(PidFile::write(&path).unwrap_err().message.contains("no pid file"));
        std::fs::remove_dir(&path).unwrap();
        let file = PidFile::write(&path).unwrap();
        std::fs::rename(&precious, &path).unwrap();
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(entries(dir.path()), 1);
        let absent = dir.path().join("gone/pid");
        let message = PidFile::write(&absent).unwrap_err().message;
        let remedy = format!(
            "Create the directory {}, or choose another",
            absent.parent().unwrap().display()
        );
        assert!(message.contains(&remedy), "{message}");
    }
}
