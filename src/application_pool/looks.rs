//! The looks at restart files that are in flight (`looking.rs`).

use super::options::PoolOptions;
use crate::kernel::collections::wait_queue::Queue;
use foldhash::HashMap;

/// The look in flight at one directory, and the gets that wait.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    /// Counts the looks of this record.
    pub(super) nth: u64,
    /// Gets that wait for the look in flight.
    pub(super) this: Queue,
    /// Gets that wait for the next look.
    pub(super) next: Queue,
    /// By the name of the group: gets that have begun a look and have not waited for it.
    pub(super) later: HashMap<String, Later>,
}

/// A get that has not waited for its look.
#[derive(Debug)]
pub(super) struct Later {
    pub(super) options: PoolOptions,
    /// Whether its group existed then. If it is gone when the look ends, it was detached: the look does not bring it
    /// back.
    pub(super) found: bool,
}
