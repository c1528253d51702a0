//! The state that the processes of all applications of a spawner share.

use crate::children::Children;
use crate::connections::Connections;
use crate::forker::Forker;
use crate::instance_dir::Instance;
use crate::release_dirs::ReleaseDirs;
use crate::reports::Reports;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The parts that the processes of all applications share.
pub(super) struct Shared {
    pub(super) instance: Instance,
    pub(super) children: Arc<Children>,
    pub(super) forker: Forker,
    pub(super) connections: Connections,
    pub(super) reports: Arc<Reports>,
    pub(super) release_dirs: Arc<ReleaseDirs>,
    pub(super) runtime: Handle,
    /// The soft limit of open files that the server was started with, if there is one.
    pub(super) open_files: Option<u64>,
}
