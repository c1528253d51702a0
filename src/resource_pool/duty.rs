//! What the maintenance does.

/// What the maintenance is for. Each has an executor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To have leave what is over, and to tell of it.
    Sweep,
    /// To test what is idle and to fill stock up.
    Stock,
}

impl Duty {
    pub(crate) const ALL: [Duty; 2] = [Duty::Sweep, Duty::Stock];
}
