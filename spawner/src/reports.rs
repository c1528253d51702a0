//! Reports of processes that end by themselves: from their lifelines to the pool.

use crate::process::AppInfo;
use std::fmt;
use std::sync::OnceLock;

type Report = Box<dyn Fn(&AppInfo) + Send + Sync>;

/// The way to the pool, once there is one.
#[derive(Default)]
pub(crate) struct Reports(OnceLock<Report>);

impl Reports {
    /// Reports by `report` from now on. Only the first call has an effect.
    pub(crate) fn set(&self, report: impl Fn(&AppInfo) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(report));
    }

    /// Reports that a process has ended by itself.
    pub(crate) fn ended(&self, process: &AppInfo) {
        if let Some(report) = self.0.get() {
            report(process);
        }
    }
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reports").field(&self.0.get().is_some()).finish()
    }
}
