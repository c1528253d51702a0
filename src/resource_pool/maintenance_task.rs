//! The kinds of maintenance work, and their executors.

use crate::periodic_executor::OpenError;

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
    pub(super) open: Box<dyn Fn() -> Result<(), OpenError> + Send + Sync>,
    pub(super) wake: Box<dyn Fn() + Send + Sync>,
}

/// One executor for each task.
pub(super) type Maintenance = [Maintainer; MaintenanceTask::ALL.len()];
