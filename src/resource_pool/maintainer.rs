//! The executors of the maintenance.

use super::maintenance_task::MaintenanceTask;
use crate::periodic_executor::OpenError;
use std::sync::atomic::AtomicBool;

/// The executor of one task, on a thread or a runtime. It ends when this is dropped.
pub(super) struct Maintainer {
    /// Opens it. Returns whether it is open then.
    pub(super) open: Box<dyn Fn() -> Result<bool, OpenError> + Send + Sync>,
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
    /// The runtime dropped its task when it was opened last, and the listener was notified.
    pub(super) dropped: AtomicBool,
}

/// One executor for each task.
pub(super) type Maintenance = [Maintainer; MaintenanceTask::ALL.len()];
