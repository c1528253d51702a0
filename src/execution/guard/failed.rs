//! The failures of an execution, in order, until they are reported.
//!
//! A waiting future may be dropped, and then never finishes its work. It therefore stores each failure here before it
//! waits. The end of the execution, for example its drop, reports them.

use crate::execution::error::{ExecutionError, Failure};
use std::mem::take;

#[derive(Default)]
pub(super) struct Failed {
    /// Not reported yet.
    pub(super) failures: Vec<Failure>,
    over: bool,
}

/// The execution finished before it could begin, or begin again. The failure is stored.
pub(super) struct Over;

impl Failed {
    /// Returns the number of failures so far, which is the place of the next one.
    pub(super) fn place(&self) -> usize {
        self.failures.len()
    }
    /// Stores at `place` the failure that keeps the execution from going on.
    pub(super) fn at<T>(&mut self, place: usize, result: Result<T, Failure>) -> Result<T, Over> {
        result.map_err(|failure| {
            self.failures.insert(place, failure);
            self.over = true;
            Over
        })
    }
    /// The same, before all other failures: the failure that keeps the execution from beginning matters most.
    pub(super) fn first<T>(&mut self, result: Result<T, Failure>) -> Result<T, Over> {
        self.at(0, result)
    }

    /// Whether the execution is finished although its value exists: it could not begin again.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }
    pub(super) fn has_begun_anew(&mut self) {
        self.over = false;
    }

    /// Takes the failures, as one error to report.
    pub(super) fn take(&mut self) -> Option<ExecutionError> {
        ExecutionError::of(take(&mut self.failures))
    }
}
