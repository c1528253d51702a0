//! A check of the file type before the server opens a path that the user controls.
//!
//! Opening a FIFO waits for a peer, and reading some devices never ends. The check comes before the
//! opening, because opening some devices has an effect. It follows symbolic links, because
//! `cabrank.toml` may be one.

use std::fs::FileType;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Checks that `path` is a regular file.
///
/// # Errors
/// The system's error if `path` does not exist, else an error that names the file type.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    check_type(path.metadata()?.file_type())
}

/// Checks that a file is a regular one.
///
/// # Errors
/// An error that names the file type.
pub(crate) fn check_type(found: FileType) -> io::Result<()> {
    let what = if found.is_file() {
        return Ok(());
    } else if found.is_dir() {
        "directory"
    } else if found.is_symlink() {
        "symbolic link"
    } else if found.is_fifo() {
        "FIFO"
    } else if found.is_socket() {
        "socket"
    } else {
        "device"
    };
    Err(io::Error::other(format!("it is a {what}, not a regular file")))
}
