//! The part of a process that leaves the lock.

use super::begun::Begun;
use super::ending::{Ending, Found};
use super::table_keys::ProcessKey;
use crate::application_pool::api::spawner::{Identifier, Spawner};
use crate::kernel::sync::{Arc, Flag};
use crate::kernel::user_code::SlowDrop;

/// The process itself, and the way back into the pool.
///
/// The pool shares it while the process is in its data, and each [`Lease`](crate::application_pool::Lease) and
/// [`Session`](crate::application_pool::Session) until it ends.
pub(crate) struct Entry<S: Spawner> {
    pub(crate) process: SlowDrop<S::Process>,
    pub(crate) identifier: Identifier,
    pub(crate) pid: Option<u32>,
    /// The key of the `ProcessInfo`, as long as `gone` is false.
    pub(crate) key: ProcessKey,
    /// Whether the process has left the pool's data: the pseudocode's unlocked look at `detached` (erratum E15).
    /// A detached process is still counted while it drains (E13), so this flag is set only afterwards. Set
    /// under the lock, never unset.
    ///
    /// # Synchronization
    /// Relaxed, the weakest ordering, is enough. A reader that sees it set returns, and reads no data of the
    /// setter's. A reader that does not see it takes the lock, which orders its second look.
    pub(crate) gone: Flag,
    /// Orders its events; absent without an observer.
    pub(crate) begun: Option<std::sync::Arc<Begun>>,
    /// Its pool. Forms a cycle with the pool's own reference to this entry, broken when the process leaves the pool.
    /// Closing the pool makes every process leave.
    pub(crate) home: Box<dyn Home<S>>,
}

/// The pool of a process. The state knows no pool, and a session that ends must find one without a look-up.
pub(crate) trait Home<S: Spawner>: Send + Sync {
    /// Ends a session of the process, in a section of the pool.
    fn end_session(&self, entry: &Arc<Entry<S>>, ending: Ending) -> Found;
}
