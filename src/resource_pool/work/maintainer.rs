//! The executors of the maintenance.

use crate::periodic_executor::OpenError;
use crate::resource_pool::state::maintenance_task::MaintenanceTask;
use std::sync::atomic::AtomicBool;

/// The executor of one task, on a thread or a runtime. It ends when this is dropped.
pub(crate) struct Maintainer {
    /// Opens it. Returns whether it is open then.
    pub(crate) open: Box<dyn Fn() -> Result<bool, OpenError> + Send + Sync>,
    pub(crate) wake: Box<dyn Fn() + Send + Sync>,
    /// It did not start when it was opened last, and the listener was notified.
    pub(crate) reported: AtomicBool,
}

/// One executor for each task.
pub(crate) type Maintenance = [Maintainer; MaintenanceTask::ALL.len()];
