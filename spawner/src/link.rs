//! The link from application processes to their pool.

use crate::preloader::Preloading;
use crate::process::AppProcess;
use crate::reports::Reports;
use cabrank::ApplicationPool;
use cabrank::application_pool::Spawner;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Reports processes that end by themselves to the pool, and ends the preloaders with the pool.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) reports: Arc<Reports>,
    pub(crate) preloading: Vec<Arc<Preloading>>,
}

impl Link {
    /// Reports to `pool` from now on. Only the first call has an effect.
    pub fn set<S: Spawner<Process = AppProcess>>(&self, pool: &ApplicationPool<S>) {
        let pool = pool.downgrade();
        self.reports.set(move |process| {
            let Some(pool) = pool.upgrade() else { return };
            // A request may be the cause, also after its answer. The pool does not back off then: one bad page would stop the
            // application.
            match process.had_session.load(Ordering::Acquire) {
                false => pool.process_has_failed(process.endpoint.identifier),
                true => pool.detach(process.endpoint.identifier),
            };
        });
    }

    /// Ends the preloaders, and lets no other one begin. Call it before the pool closes.
    pub fn close(&self) {
        for preloading in &self.preloading {
            preloading.close();
        }
    }
}
