//! The types and functions of the pool that users call and get.

pub(crate) mod builder;
pub(crate) mod close_timed_out;
pub(crate) mod error;
pub(crate) mod event;
mod get;
mod group_name;
pub(crate) mod options;
pub(crate) mod pool;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod spawner;
pub(crate) mod totals;

pub use builder::Builder;
pub use close_timed_out::CloseTimedOut;
pub use error::{BuildError, ConnectError, GetError, SpawnError};
pub use event::{DetachReason, Event};
pub use options::{PoolOptions, RestartMode};
pub use pool::{ApplicationPool, WeakPool};
pub use session::{Lease, Session};
pub use snapshot::{Counts, GroupSnapshot, ProcessSnapshot, ProcessState, Snapshot};
pub use spawner::{CancelToken, Identifier, Process, ShutDown, SpawnRequest, Spawner};
pub use totals::Totals;
