//! Orders the report of a process's end after that of its beginning.

use crate::application_pool::api::event::Event;
use std::sync::{Mutex, PoisonError};

/// Delays the report of a process's end until that of its beginning has returned.
///
/// A section on one thread attaches a process, and reports that without the lock. A section on another thread may
/// detach it meanwhile. No call of user code happens under this lock, so it is no step of a model.
#[derive(Debug, Default)]
pub(crate) struct Begun(Mutex<Report>);

#[derive(Debug, Default)]
enum Report {
    /// The report of the beginning has not returned; holds that of the end, if it has come.
    #[default]
    Begins,
    Waits(Event),
    Has,
}

impl Begun {
    fn lock(&self) -> std::sync::MutexGuard<'_, Report> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Call it when the beginning was reported. Returns the report of the end, if that has come.
    pub(crate) fn has_begun(&self) -> Option<Event> {
        match std::mem::replace(&mut *self.lock(), Report::Has) {
            Report::Waits(end) => Some(end),
            Report::Begins | Report::Has => None,
        }
    }
    /// Returns the report of the end, unless the thread that reports the beginning will make it.
    pub(crate) fn ends(&self, end: Event) -> Option<Event> {
        let mut report = self.lock();
        match *report {
            Report::Has => Some(end),
            Report::Begins | Report::Waits(_) => {
                *report = Report::Waits(end);
                None
            }
        }
    }
}
