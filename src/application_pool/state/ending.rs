//! How a session ends.

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was closed, and counts as a processed request.
    Closed,
    /// It was never used: a get was cancelled, or could not connect because of the caller's side.
    Unused,
    /// The process broke it.
    Failed,
    /// The process refused the connection. The section that ends it looks for another one, and settles.
    Refused,
}

/// How a close found its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It has left the pool, as seen without the lock.
    GoneBeforeLock,
    /// It has left the pool, as seen under the lock.
    GoneUnderLock,
    /// It drains, and was counted down.
    Draining,
    /// It is attached.
    Live,
}
