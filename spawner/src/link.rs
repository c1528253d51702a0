//! The link from application processes to their pool.

use crate::preloader::Preloading;
use crate::process::{AppInfo, AppProcess};
use crate::release_dirs::ReleaseDirs;
use crate::reports::Reports;
use cabrank::ApplicationPool;
use cabrank::application_pool::Spawner;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reports to the pool the processes that end by themselves and the releases that a spawn has found, and ends the preloaders with
/// the pool.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) reports: Arc<Reports>,
    pub(crate) preloading: Vec<Arc<Preloading>>,
    pub(crate) release_dirs: Arc<ReleaseDirs>,
}

impl Link {
    /// Reports to `pool` from now on. Only the first call has an effect.
    pub fn set<S: Spawner<Process = AppProcess>>(&self, pool: &ApplicationPool<S>) {
        let (pool, of_restarts) = (pool.downgrade(), pool.downgrade());
        let ended = move |process: &AppInfo| {
            let Some(pool) = pool.upgrade() else { return };
            // A request may be the cause, also after its answer. The pool does not back off then: one bad page would stop the
            // application.
            match process.had_session.load(Ordering::Acquire) {
                false => pool.process_has_failed(process.endpoint.identifier),
                true => pool.process_is_gone(process.endpoint.identifier),
            };
        };
        self.reports.set(ended, move |group, mode| {
            if let Some(pool) = of_restarts.upgrade() {
                pool.restart_group(group, mode);
            }
        });
    }

    /// Returns the directory in which the latest process of a group that became ready has started: the one that the application's
    /// path named then, without links. `None`: no process of the group has become ready.
    pub fn release(&self, group: &str) -> Option<PathBuf> {
        self.release_dirs.serving(group)
    }

    /// Returns the directory in which the next process of a group starts, if it is another one than that of
    /// [`release`](Self::release): processes start there, or fail to start.
    pub fn next_release(&self, group: &str) -> Option<PathBuf> {
        self.release_dirs.next(group)
    }

    /// Ends the preloaders, and lets no other one begin. Call it before the pool closes.
    pub fn close(&self) {
        for preloading in &self.preloading {
            preloading.close();
        }
    }
}
