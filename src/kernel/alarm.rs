//! The alarm of an executor that does an owner's timed work: until when it sleeps.
//!
//! After each pass the executor notes under the lock when its next work is due, and sleeps until then. A section that
//! makes something due earlier finds that by the note, and wakes the executor after the section. It does so even if the
//! executor does not sleep yet. So the executor misses no due time, and sections that change nothing wake nobody.

use crate::kernel::clock::Time;
use std::time::Duration;

/// Until when an executor sleeps. It is under its owner's lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// `None`: without end, or it has stopped.
    rings_at: Option<Time>,
}

impl Alarm {
    /// Returns the alarm of an executor whose first pass comes at once.
    pub(crate) fn at_once() -> Self {
        Alarm { rings_at: Some(Time::default()) }
    }
    /// Sets the alarm, at the end of a pass, to the time of the next work.
    pub(crate) fn set(&mut self, next_due: Option<Time>) {
        self.rings_at = next_due;
    }
    /// Makes the next [`ring_by`](Self::ring_by) wake the executor, because it could not be started.
    pub(crate) fn clear(&mut self) {
        self.rings_at = None;
    }
    /// Makes the alarm ring by the time `due`. Returns whether the caller has to wake the executor for that.
    #[inline]
    pub(crate) fn ring_by(&mut self, due: Time) -> bool {
        let is_late = !self.rings_by(due);
        if is_late {
            self.rings_at = Some(due);
        }
        is_late
    }
    /// Returns whether the alarm rings by the time `due`.
    #[inline]
    pub(crate) fn rings_by(self, due: Time) -> bool {
        self.rings_at.is_some_and(|at| at <= due)
    }
    /// Returns whether the executor should have begun its pass this long before `now`.
    #[inline]
    pub(crate) fn is_overdue(self, by: Duration, now: Time) -> bool {
        self.rings_at.is_some_and(|at| at.plus(by) < now)
    }
}
