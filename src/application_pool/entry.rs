//! The part of a process that leaves the lock.

use super::event::Begun;
use super::inner::Inner;
use super::spawner::{Identifier, Spawner};
use super::table_keys::ProcessKey;
use crate::kernel::sync::Flag;
use crate::kernel::user_code::SlowDrop;

/// The process itself, and the way back into the pool.
///
/// The pool shares it while the process is in its data, and each [`Lease`](super::Lease) and
/// [`Session`](super::Session) until it ends.
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
    /// Forms a cycle with the pool's own reference to this entry, broken when the process leaves the pool.
    /// Closing the pool makes every process leave.
    pub(crate) pool: std::sync::Arc<Inner<S>>,
}
