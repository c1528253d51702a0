//! The names of owners, and the caller of a request: how it waits, how long, and where in the source it stands.

use crate::kernel::collections::arena::Key;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// Whether a task waits. Otherwise the thread blocks.
    pub(super) is_task: bool,
    /// The limit of each of its waits.
    pub(super) limit: Option<Duration>,
    pub(super) at: &'static Location<'static>,
}

impl Caller {
    #[track_caller]
    #[inline]
    pub(crate) fn thread(limit: Option<Duration>) -> Self {
        Caller { is_task: false, limit, at: Location::caller() }
    }
    #[track_caller]
    #[inline]
    pub(crate) fn task(limit: Option<Duration>) -> Self {
        Caller { is_task: true, limit, at: Location::caller() }
    }
}

/// Names the owners in the types of their keys.
#[derive(Debug)]
pub(crate) enum Owners {}

/// The key of an owner.
pub(crate) type OwnerKey = Key<Owners>;

/// Names one execution in dumps and errors. Shown as `index.use`: an index is used again, and its use counts up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId {
    key: OwnerKey,
    uses: u64,
}

impl OwnerId {
    pub(super) fn new(key: OwnerKey, uses: u64) -> Self {
        OwnerId { key, uses }
    }
    pub(super) fn key(self) -> OwnerKey {
        self.key
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.key.index(), self.uses)
    }
}
