//! The options and the limits that a row starts its server with.

use crate::disk::Disk;

/// The number of processes of each sample application.
pub(crate) const PROCESSES: usize = 3;

/// The number of processes that the user `nobody` may have, if the row limits them.
pub(crate) const USER_PROCESSES: usize = 100;

/// The server's options and limits.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setup {
    /// Options of `cabrank start`, left out where the binary has no such option.
    pub(crate) options: &'static [&'static str],
    /// The hard limit of descriptors.
    pub(crate) descriptors: Option<fn() -> usize>,
    /// The file system of the server's directory.
    pub(crate) disk: Disk,
    /// The processes run as the user `nobody`, who may have [`USER_PROCESSES`].
    /// Only root can do this.
    pub(crate) limits_processes: bool,
    /// The interpreter is a script that may misbehave: see [`crate::interpreter`].
    pub(crate) own_interpreter: bool,
}

impl Setup {
    /// Returns the reason why this machine cannot start such a server.
    pub(crate) fn is_missing(&self) -> Option<&'static str> {
        if self.limits_processes && !rustix::process::geteuid().is_root() {
            return Some("it needs root");
        }
        self.disk.is_missing()
    }
}
