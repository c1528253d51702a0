//! An order to spawn one process. It carries the reservation of the section that made it.

use super::table_keys::GroupKey;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::{CancelToken, Identifier};

/// The purpose of the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It raises `count`.
    Addition,
    /// It replaces an outdated process.
    Replacement,
}

/// One spawn to be made.
pub(crate) struct SpawnOrder {
    pub(crate) group: GroupKey,
    /// Names the spawn, and later its process.
    pub(crate) ticket: Identifier,
    pub(crate) kind: Kind,
    /// Holds the application's root, which the pseudocode does not pass to its spawner thread (erratum E7).
    pub(crate) options: PoolOptions,
    pub(crate) cancel: CancelToken,
    /// Whether the spawner reloads first.
    pub(crate) reload: bool,
}
