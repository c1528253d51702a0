//! An execution that is bound to a thread, where its executor is active.

use super::ambient::Within;
use super::error::ExecutionError;
use super::execution::Execution;
use super::interlock::Running;
use std::fmt;

/// A running execution, and its executor is active on this thread. [`Executor::run`](super::Executor::run) returns it.
///
/// Dropping it completes the hooks, too; failures then go to the reporter only. Guards may be dropped in any order, but
/// stay on their thread.
#[must_use = "dropping an execution completes it"]
pub struct ExecutionGuard {
    /// Dropped first: the reporter is called outside the execution.
    here: Within,
    execution: Execution<'static>,
}

impl ExecutionGuard {
    pub(crate) fn new(execution: Execution<'static>) -> Self {
        let here = execution.frame().enter();
        ExecutionGuard { here, execution }
    }
    /// Returns the execution's share of the interlock, as [`Execution::running`] does.
    pub fn running(&mut self) -> Option<&mut Running<'static>> {
        self.execution.running()
    }
    /// Completes every hook in reverse order, even if one fails.
    ///
    /// # Errors
    /// The failures, which were reported before.
    #[track_caller]
    pub fn complete(self) -> Result<(), ExecutionError> {
        let ExecutionGuard { here, execution } = self;
        drop(here);
        execution.complete()
    }
}

impl fmt::Debug for ExecutionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExecutionGuard").field(&self.execution).finish()
    }
}
