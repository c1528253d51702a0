//! The looks at restart files that are in flight (`looking.rs`).

use super::look::Look;
use crate::application_pool::api::options::PoolOptions;
use crate::kernel::collections::wait_queue::{Queue, WaiterKey};
use foldhash::HashMap;
use std::path::Path;
use std::sync::Arc;

/// The look in flight at one directory, and the gets that wait.
#[derive(Debug, Default)]
pub(crate) struct Looking {
    /// Counts the looks of this record.
    pub(crate) nth: u64,
    /// Gets that wait for the look in flight.
    pub(crate) this: Queue,
    /// Gets that wait for the next look.
    pub(crate) next: Queue,
    /// By the name of the group: gets that have begun a look and have not waited for it.
    pub(crate) later: HashMap<String, Later>,
}

/// A get that has not waited for its look.
#[derive(Debug)]
pub(crate) struct Later {
    pub(crate) options: PoolOptions,
    /// Whether its group existed then. If it is gone when the look ends, it was detached: the look does not bring it
    /// back.
    pub(crate) found: bool,
}

/// How a get has looked at its restart files.
pub(crate) enum Looked {
    Seen(Arc<Look>),
    /// It may not wait for a look in this directory.
    Later(Arc<Path>),
}

/// A get that waits for a look.
pub(crate) struct WaitForLook {
    pub(crate) dir: Arc<Path>,
    pub(crate) nth: u64,
    pub(crate) waiter: WaiterKey,
}
