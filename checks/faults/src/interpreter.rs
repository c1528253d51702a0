//! An interpreter that can misbehave: a script that runs Python, or else a line of shell.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the place of the script beside an application.
pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("python.sh")
}

/// Lines of shell that the interpreter runs instead of a loader, each with its name.
pub(crate) const GARBAGE: &[(&str, &str)] = &[
    ("random bytes", "head -c 300000 /dev/urandom"),
    ("an endless line", "head -c 300000 /dev/zero | tr '\\0' x"),
    ("ready without a socket", "printf '!> Ready\\n!> \\n'; exec sleep 300"),
    (
        "a socket elsewhere",
        "printf '!> I have control 1.0\\n!> Ready\\n!> socket: main;unix:/etc/../tmp/x;session;1\\n!> \\n'; exec sleep 300",
    ),
    ("no word at all", "exec sleep 300"),
    ("an exit", "exit 0"),
];

/// Writes the script. It misbehaves while the file `garbage` beside it has a line of shell.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    let file = path(dir);
    let real = "exec python3 \"$@\"";
    fs::write(
        &file,
        format!(
            "#!/bin/sh\nif [ -e {0}/garbage ]; then . {0}/garbage; else {real}; fi\n",
            dir.display()
        ),
    )?;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

/// Lets the interpreter run this line instead of a loader, or behave again.
pub(crate) fn set(dir: &Path, line: Option<&str>) -> io::Result<()> {
    match line {
        Some(line) => {
            // A new process may read the file at any time, so it appears as a whole.
            fs::write(dir.join("garbage.new"), format!("{line}\n"))?;
            fs::rename(dir.join("garbage.new"), dir.join("garbage"))
        }
        None => fs::remove_file(dir.join("garbage")),
    }
}
