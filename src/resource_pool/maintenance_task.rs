//! What the maintenance does.

/// What the maintenance is for. Each has an executor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaintenanceTask {
    /// To have leave what is over, and to tell of it.
    Evict,
    /// To test what is idle and to fill stock up.
    Refill,
}

impl MaintenanceTask {
    pub(crate) const ALL: [MaintenanceTask; 2] = [MaintenanceTask::Evict, MaintenanceTask::Refill];
}
