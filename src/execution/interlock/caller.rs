//! The caller of a request: how it waits, how long, and where in the source it stands.

use std::panic::Location;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// It is a future. Otherwise the thread blocks.
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
