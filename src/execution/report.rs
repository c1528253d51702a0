//! Reports of failed executions.

use super::error::Failure;
use std::error::Error;

/// The severity of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The body succeeded, but a hook could not be completed.
    Warning,
    /// The body failed, or was not run.
    Error,
}

/// A failed execution, as the reporter gets it: once, when the execution has left its interlock, without any lock.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub(crate) error: &'a (dyn Error + Send + Sync + 'static),
    pub(crate) attached: &'a [Failure],
    pub(crate) handled: bool,
    pub(crate) severity: Severity,
    pub(crate) source: &'a str,
}

impl<'a> Report<'a> {
    /// Returns the first failure: the value that the body or hook returned, or a [`Panicked`](super::Panicked).
    pub fn error(&self) -> &'a (dyn Error + Send + Sync + 'static) {
        self.error
    }
    /// Returns the later failures.
    pub fn attached(&self) -> &'a [Failure] {
        self.attached
    }
    /// Whether only the reporter gets the failure, because the execution was dropped. Otherwise the caller gets it,
    /// too.
    pub fn is_handled(&self) -> bool {
        self.handled
    }
    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }
    /// Returns the executor's name: see [`Executor::with_source`](super::Executor::with_source).
    pub fn source(&self) -> &'a str {
        self.source
    }
}

/// Called with each failed execution.
pub(crate) type Reporter = Box<dyn Fn(&Report<'_>) + Send + Sync>;
