//! A look at a file before it is opened by a path that is the user's.
//!
//! To open a FIFO is to wait for somebody at its other end, and some devices are never read to their end:
//! neither is what anybody wants of a configuration. The look comes before the opening, not after it, because
//! some devices do something when they are opened. It follows links, for `cabrank.toml` may well be one.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// An error that says what is at `path` if that is not a regular file; the system's if there is nothing.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    let found = path.metadata()?.file_type();
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
