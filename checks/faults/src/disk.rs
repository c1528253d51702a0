//! The file system of a server's directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The kind of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The file system of temporary directories.
    #[default]
    Shared,
    /// A file system of 1 MB.
    Tiny,
    /// A file system of its own, which can be frozen.
    Freezable,
}

/// A file system that is mounted until this value is dropped.
pub(crate) struct Mounted {
    at: PathBuf,
}

impl Disk {
    /// Mounts the file system, if it needs that and this user may.
    pub(crate) fn mount(self, at: &Path) -> Option<Mounted> {
        match self {
            Disk::Shared => None,
            Disk::Tiny => {
                let options = ["-t", "tmpfs", "-o", "size=1m,mode=700", "checks-faults"];
                Mounted::by(Command::new("mount").args(options).arg(at), at)
            }
            Disk::Freezable => {
                let image = tempfile::NamedTempFile::new().ok()?;
                image.as_file().set_len(32 << 20).ok()?;
                let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image.path()).status();
                made.ok()?.success().then_some(())?;
                let mut mount = Command::new("mount");
                // The loop device keeps the image when its name has gone.
                let mounted = Mounted::by(mount.args(["-o", "loop"]).arg(image.path()).arg(at), at);
                // It would count as a file of the server.
                fs::remove_dir(at.join("lost+found")).ok()?;
                mounted
            }
        }
    }

    /// Returns the reason why this machine cannot have such a file system.
    pub(crate) fn is_missing(self) -> Option<&'static str> {
        let needs_mount = self == Disk::Freezable;
        let works = || {
            let dir = tempfile::tempdir().ok()?;
            let mounted = self.mount(dir.path())?;
            fsfreeze("--freeze", dir.path()).then_some(())?;
            fsfreeze("--unfreeze", dir.path()).then_some(())?;
            drop(mounted);
            Some(())
        };
        let reason = "it needs root, and a loop device that can be frozen";
        (needs_mount && works().is_none()).then_some(reason)
    }
}

impl Mounted {
    fn by(command: &mut Command, at: &Path) -> Option<Mounted> {
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success()).then(|| Mounted { at: at.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

/// A frozen file system. Dropping it thaws the file system.
pub(crate) struct Frozen<'a>(&'a Path);

/// Freezes the file system at this path: each write to it waits.
pub(crate) fn freeze(at: &Path) -> Result<Frozen<'_>, String> {
    match fsfreeze("--freeze", at) {
        true => Ok(Frozen(at)),
        false => Err(format!("fsfreeze {}", at.display())),
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        fsfreeze("--unfreeze", self.0);
    }
}

fn fsfreeze(option: &str, at: &Path) -> bool {
    let mut command = Command::new("fsfreeze");
    command.arg(option).arg(at).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
