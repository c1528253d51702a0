//! The kinds of maintenance work.

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
