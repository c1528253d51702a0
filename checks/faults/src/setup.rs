//! The options and the limits that a row starts its server with.

use crate::disk::Disk;
use crate::own_clock;

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
    /// The server and its processes have a clock that the row sets: see [`crate::own_clock`].
    pub(crate) own_clock: bool,
}

impl Setup {
    /// Returns the reason why this machine cannot start such a server.
    pub(crate) fn is_missing(&self) -> Option<&'static str> {
        if self.limits_processes && !rustix::process::geteuid().is_root() {
            return Some("it needs root");
        }
        if self.own_clock && own_clock::library().is_none() {
            return Some("it needs Debian's package faketime");
        }
        self.disk.is_missing()
    }
}
