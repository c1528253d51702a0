//! A clock for a server and its processes, which a row can set.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the library of Debian's package `faketime`, which sets the clock of single processes.
pub(crate) fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let file = |folder: fs::DirEntry| folder.path().join("faketime/libfaketimeMT.so.1");
    folders.map(file).find(|file| file.exists())
}

/// Returns the file that says how much the clock is set forth.
fn file(dir: &Path) -> PathBuf {
    dir.join("clock")
}

/// Returns the lines of shell that give a server and its processes a clock.
pub(crate) fn give(dir: &Path) -> io::Result<String> {
    set(dir, 0)?;
    let library = library().ok_or(io::ErrorKind::NotFound)?;
    // The monotonic clock counts on when a clock is set. The shell itself does without the library, which would leave
    // its shared memory over when the shell executes the server.
    Ok(format!(
        "export FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 LD_PRELOAD='{}'; ",
        file(dir).display(),
        library.display()
    ))
}

/// Sets the clock by so many seconds before the true one.
pub(crate) fn set(dir: &Path, seconds: i64) -> io::Result<()> {
    // A process may read the file at any time, so it appears as a whole.
    fs::write(dir.join("clock.new"), format!("{seconds:+}\n"))?;
    fs::rename(dir.join("clock.new"), file(dir))
}
