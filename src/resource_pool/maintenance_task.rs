//! The kinds of maintenance work, and their executors.

use crate::periodic_executor::OpenError;
use std::sync::atomic::AtomicBool;

/// A kind of maintenance work. Each has its own executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceTask {
    /// Evicts expired resources and reports abandoned loans.
    Evict,
    /// Tests idle resources and refills the idle lists.
    Refill,
}

impl MaintenanceTask {
    pub(crate) const ALL: [MaintenanceTask; 2] = [MaintenanceTask::Evict, MaintenanceTask::Refill];
}

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
