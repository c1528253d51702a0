//! Reports to the pool: of processes that end by themselves, from their lifelines, and of releases, from spawns.

use crate::process::AppInfo;
use cabrank::application_pool::RestartMode;
use std::fmt;
use std::sync::OnceLock;

type Report = Box<dyn Fn(&AppInfo) + Send + Sync>;
type Restart = Box<dyn Fn(&str, RestartMode) + Send + Sync>;

/// The way to the pool, once there is one.
#[derive(Default)]
pub(crate) struct Reports {
    ended: OnceLock<Report>,
    restart: OnceLock<Restart>,
}

impl Reports {
    /// Reports by these functions from now on: a process that has ended by itself, and a group that needs a restart. Only the first
    /// call has an effect.
    pub(crate) fn set(
        &self,
        ended: impl Fn(&AppInfo) + Send + Sync + 'static,
        restart: impl Fn(&str, RestartMode) + Send + Sync + 'static,
    ) {
        let _ = self.ended.set(Box::new(ended));
        let _ = self.restart.set(Box::new(restart));
    }

    /// Reports that a process has ended by itself.
    pub(crate) fn ended(&self, process: &AppInfo) {
        if let Some(report) = self.ended.get() {
            report(process);
        }
    }

    /// Begins a restart of this group.
    pub(crate) fn restart(&self, group: &str, mode: RestartMode) {
        if let Some(restart) = self.restart.get() {
            restart(group, mode);
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reports").field(&self.ended.get().is_some()).finish()
    }
}
