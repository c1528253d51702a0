//! What has failed in an execution, in order, until somebody is told.
//!
//! Whoever waits may be dropped, and then the rest of what it was to do is not done. So what fails is noted
//! here before anything else is waited for, never kept by who waits: whatever ends the execution after that,
//! its drop say, tells of it.

use crate::execution::error::{ExecutionError, Failure};
use std::mem::take;

#[derive(Default)]
pub(super) struct Failed {
    /// Not told yet.
    pub(super) failures: Vec<Failure>,
    over: bool,
}

/// It is over before it has begun, or begun anew; why is noted.
pub(super) struct Over;

impl Failed {
    /// How much has failed so far: the place of what fails next.
    pub(super) fn place(&self) -> usize {
        self.failures.len()
    }
    /// Notes at its place what keeps the execution from going on.
    pub(super) fn at<T>(&mut self, place: usize, result: Result<T, Failure>) -> Result<T, Over> {
        result.map_err(|failure| {
            self.failures.insert(place, failure);
            self.over = true;
            Over
        })
    }
    /// The same before whatever has failed so far: what keeps it from beginning matters most.
    pub(super) fn first<T>(&mut self, result: Result<T, Failure>) -> Result<T, Over> {
        self.at(0, result)
    }

    /// Whether there is no execution any more, but its value: it could not begin anew.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }
    pub(super) fn has_begun_anew(&mut self) {
        self.over = false;
    }

    /// What is to be told, once.
    pub(super) fn take(&mut self) -> Option<ExecutionError> {
        ExecutionError::of(take(&mut self.failures))
    }
}
