//! Reads the files that describe an application. The owner of the application writes them, so their size has a limit.
//!
//! The owner may also exchange the file at any time. To open a FIFO waits for a peer, to open some devices has an effect, and
//! to read others never ends. So the look at the type and the reading use one file, which is opened without either at first.
//! Symbolic links are followed: `cabrank.toml` may be one. Those of `/proc` to an open file or directory are not: the server may
//! stand in a directory that the owner may not enter.

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The longest text.
const MAX: usize = 1 << 20;

/// Reads a file of text, such as a `Procfile`.
///
/// # Errors
/// The file cannot be read, is no regular file, is longer than 1 MiB, or is no text in UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let found = find(path)?;
    check_type(found.metadata()?.file_type())?;
    let mut text = Vec::new();
    let file = File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
    file.take(MAX as u64 + 1).read_to_end(&mut text)?;
    if text.len() > MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is longer than 1 MiB"));
    }
    String::from_utf8(text).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Returns whether a file of any type is there.
pub(super) fn exists(path: &Path) -> bool {
    find(path).is_ok()
}

/// Returns whether a regular file is there.
pub(super) fn is_file(path: &Path) -> bool {
    find(path).and_then(|found| found.metadata()).is_ok_and(|facts| facts.is_file())
}

/// Opens a file to learn its facts.
fn find(path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve) {
        // Before Linux 5.6.
        Err(Errno::NOSYS) => Ok(rustix::fs::open(path, flags, Mode::empty())?.into()),
        found => Ok(found?.into()),
    }
}

fn check_type(found: FileType) -> io::Result<()> {
    let what = if found.is_file() {
        return Ok(());
    } else if found.is_dir() {
        "directory"
    } else if found.is_fifo() {
        "FIFO"
    } else if found.is_socket() {
        "socket"
    } else {
        "device"
    };
    Err(io::Error::other(format!("it is a {what}, not a regular file")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_regular_file_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, link] = ["fifo", "link"].map(|name| dir.path().join(name));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        symlink("/dev/zero", &link).unwrap();
        for (path, what) in [(&*fifo, "FIFO"), (&*link, "device"), (dir.path(), "directory")] {
            let error = read_text(path).unwrap_err().to_string();
            assert_eq!(error, format!("it is a {what}, not a regular file"));
        }
        std::fs::write(dir.path().join("file"), "text").unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink("file", &link).unwrap();
        assert_eq!(read_text(&link).unwrap(), "text");
    }

    /// The process may stand in a directory, or have a file open, that the owner of such a link may not reach.
    #[test]
    fn no_link_of_proc_to_an_open_file_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        for (name, target) in [("fd", &*open), ("cwd", "/proc/self/cwd/Cargo.toml")] {
            let link = dir.path().join(name);
            symlink(target, &link).unwrap();
            assert!(link.exists() && !exists(&link) && !is_file(&link), "{target}");
            assert!(read_text(&link).is_err());
        }
    }

    #[test]
    fn a_text_is_read_up_to_its_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "x".repeat(MAX)).unwrap();
        assert_eq!(read_text(file.path()).unwrap().len(), MAX);
        std::fs::write(file.path(), "x".repeat(MAX + 1)).unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().to_string(), "it is longer than 1 MiB");
        let sparse = File::options().write(true).open(file.path()).unwrap();
        sparse.set_len(1 << 40).unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
