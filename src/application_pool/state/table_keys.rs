//! The keys of the pool's tables.

use crate::kernel::collections::arena::Key;

/// Names the groups in the types of their keys.
#[derive(Debug)]
pub(crate) enum Groups {}

/// The key of a group.
pub(crate) type GroupKey = Key<Groups>;

/// Names the processes in the types of their keys.
#[derive(Debug)]
pub(crate) enum ProcessInfos {}

/// The key of a process.
pub(crate) type ProcessKey = Key<ProcessInfos>;
