//! The file of the log (`--log-file`).
//!
//! A tool such as logrotate renames the file: the next lines go to a new file of its name. If root writes, another user may
//! own the directory, and put a link to a file of root there. So the server holds the directory open ([`place`]), follows no
//! link, and writes only to a regular file of its own that has no other name.

use crate::listen::place;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The file that takes the lines.
#[derive(Debug)]
pub(crate) struct LogFile {
    directory: OwnedFd,
    name: OsString,
    file: File,
}

impl LogFile {
    /// Opens the file at `path`, or makes it, with the mode 0640.
    ///
    /// # Errors
    /// It cannot be opened, or is not a file of this server alone.
    pub(crate) fn open(path: &Path) -> io::Result<LogFile> {
        let (directory, name) = place::open(&std::path::absolute(path)?)?;
        let file = open_at(&directory, &name)?;
        Ok(LogFile { directory, name, file })
    }

    /// Opens the file again if its name leads to another file by now, or to none.
    fn renew(&mut self) {
        let named = statat(&self.directory, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        let is_same = match (named, fstat(&self.file)) {
            (Ok(named), Ok(own)) => (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino),
            _ => false,
        };
        if !is_same && let Ok(file) = open_at(&self.directory, &self.name) {
            self.file = file;
        }
    }
}

fn open_at(directory: &OwnedFd, name: &OsString) -> io::Result<File> {
    // To open a FIFO, or a file with a lease, could wait.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::from_raw_mode(0o640))?);
    let facts = fstat(&file)?;
    let own = rustix::process::geteuid().as_raw();
    let problem = match () {
        () if !file.metadata()?.is_file() => "it is no regular file",
        () if facts.st_uid != own => "it belongs to another user",
        () if facts.st_nlink != 1 => "it has other names, too",
        () => return Ok(file),
    };
    Err(io::Error::other(problem))
}

/// The log thread writes a batch of lines with few calls.
impl Write for LogFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.renew();
        self.file.write(lines)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn lines_follow_the_name_and_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        fs::write(at("log"), "before\n").unwrap();
        let mut log = LogFile::open(&at("log")).unwrap();
        log.write_all(b"one\n").unwrap();
        fs::rename(at("log"), at("log.1")).unwrap();
        log.write_all(b"two\n").unwrap();
        assert_eq!((read("log.1"), read("log")), ("before\none\n".into(), "two\n".into()));
        assert_eq!(at("log").metadata().unwrap().permissions().mode() & 0o037, 0);
        // A file that another user has put there takes no line.
        fs::write(at("other"), "").unwrap();
        for put in [
            |from: &Path, to: &Path| symlink(from, to),
            |from: &Path, to: &Path| fs::hard_link(from, to),
        ] {
            fs::remove_file(at("log")).unwrap();
            put(&at("other"), &at("log")).unwrap();
            log.write_all(b"three\n").unwrap();
            assert_eq!(read("other"), "");
            assert!(LogFile::open(&at("log")).is_err());
        }
        fs::remove_file(at("log")).unwrap();
        log.write_all(b"four\n").unwrap();
        assert_eq!(read("log"), "four\n");
    }

    #[test]
    fn other_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            [dir.path().join("none/log"), dir.path().to_owned(), "/dev/null".into(), "/".into()]
        {
            assert!(LogFile::open(&path).is_err(), "{}", path.display());
        }
    }

    #[test]
    fn root_logs_to_no_directory_to_which_a_link_of_another_user_leads() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root distrusts links");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["app", "of_root"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::os::unix::fs::chown(dir.path().join("app"), Some(1), Some(1)).unwrap();
        symlink("../of_root", dir.path().join("app/log")).unwrap();
        for name in ["new", "old"] {
            fs::write(dir.path().join("of_root/old"), "").unwrap();
            let error = LogFile::open(&dir.path().join("app/log").join(name)).unwrap_err();
            assert!(error.to_string().contains("another user may change the link"), "{error}");
        }
        assert!(!dir.path().join("of_root/new").exists());
        LogFile::open(&dir.path().join("app/own")).unwrap();
    }
}
