//! Reads the files that describe an application. The owner of the application writes them, so their size has a limit.
//!
//! The owner may also exchange the file at any time. To open a FIFO waits for a peer, to open some devices has an effect, and
//! to read others never ends. So the look at the type and the reading use one file, which is opened without either at first.
//! Symbolic links are followed: `cabrank.toml` may be one. Those of `/proc` to an open file or directory are not: the server may
//! stand in a directory that the owner may not enter.

use rustix::fs::{Access, CWD, Mode, OFlags, ResolveFlags, access};
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
    // Its owner may have a lease on it, for which an open would wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(of_descriptor(&found), flags, Mode::empty())?);
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

/// Returns whether this process may execute the file.
pub(super) fn is_executable(path: &Path) -> bool {
    find(path).is_ok_and(|found| access(of_descriptor(&found), Access::EXEC_OK).is_ok())
}

/// Returns a name of an open file, whatever has its former name by now.
fn of_descriptor(file: &File) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
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
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::symlink;
    use std::process::{Command, Stdio};

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

    /// The kernel lets an open wait for the end of a lease, up to 45 s each time. The owner of the file takes another one then.
    #[test]
    fn a_file_with_a_lease_is_not_waited_for() {
        // Closed: a lease needs a file that is open once.
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        std::fs::write(&file, "text").unwrap();
        let holds = "import fcntl, os, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('held', flush=True)\n\
            sys.stdin.read()";
        let mut command = Command::new("python3");
        command.args(["-c", holds]).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        assert_eq!(read_text(&file).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(read_text(&file).unwrap(), "text");
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
