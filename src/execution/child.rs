//! Executions that another execution waits for.

use super::error::{BoxError, ExecutionError};
use super::executor::Executor;
use super::guard::{Entry, Execution};
use super::interlock::{self, Interlock};

/// The right to begin an execution as a child of another, for a thread or task that its parent waits for. See
/// [`Execution::child`].
#[derive(Debug)]
#[must_use = "the parent's reload waits for it"]
pub struct Child {
    executor: Executor,
    token: Option<interlock::Child>,
}

impl Child {
    pub(crate) fn new(executor: Executor, token: Option<interlock::Child>) -> Self {
        Child { executor, token }
    }

    /// Runs `body` in the child's execution, like [`Executor::wrap`]. Inside a load or an unload it is a part of
    /// that, and no child.
    ///
    /// # Errors
    /// Those of [`Executor::wrap`].
    ///
    /// # Panics
    /// As [`Executor::wrap`].
    pub fn wrap<R>(
        self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        if self.executor.is_active() {
            return self.executor.nest(body);
        }
        let interlock = self.executor.interlock();
        let entry = match interlock.is_some_and(Interlock::is_alone_here) {
            // No other owner runs, so the token has no waiter to pass.
            true => Entry::Scope,
            false => Entry::Child(self.token),
        };
        Execution::start(self.executor, entry, None)?.carry(body)
    }
    /// [`Executor::run`] for the child's execution.
    ///
    /// # Errors
    /// Those of [`Executor::run`].
    pub fn run(self) -> Result<Execution<'static>, ExecutionError> {
        if self.executor.is_active() {
            return Ok(Execution::nested(self.executor));
        }
        Execution::start(self.executor, Entry::Child(self.token), None)
    }
    /// [`Executor::run_async`] for the child's execution.
    ///
    /// # Errors
    /// Those of [`Executor::run`].
    ///
    /// # Cancel safety
    /// Dropped at an await, the child is gone, and no hook has run.
    pub async fn run_async(self) -> Result<Execution<'static>, ExecutionError> {
        if self.executor.is_active() {
            return Ok(Execution::nested(self.executor));
        }
        Execution::start_async(self.executor, Entry::Child(self.token), None).await
    }
    /// [`Executor::wrap_async`] in the child's execution.
    ///
    /// # Errors
    /// Those of [`Executor::wrap`].
    ///
    /// # Panics
    /// As [`Executor::wrap`].
    ///
    /// # Cancel safety
    /// As [`Executor::wrap_async`].
    pub async fn wrap_async<R, F>(self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        if self.executor.is_active() {
            return self.executor.nest_async(body).await;
        }
        let entry = Entry::Child(self.token);
        Execution::start_async(self.executor, entry, None).await?.carry_async(body).await
    }
}
