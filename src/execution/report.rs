//! Telling somebody that an execution has failed.

use super::error::Failure;
use std::error::Error;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// The body was well, but not everything could be completed.
    Warning,
    /// The body failed, or was not run.
    Error,
}

/// A failed execution, as it is told to the error reporter: once, when it has left its interlock, and no lock is
/// held. What fails in a [reset](super::Execution::reset) is told while the share is kept, within the execution.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    pub(crate) error: &'a (dyn Error + Send + Sync + 'static),
    pub(crate) attached: &'a [Failure],
    pub(crate) handled: bool,
    pub(crate) severity: Severity,
    pub(crate) source: &'a str,
}

impl<'a> Report<'a> {
    /// What failed first: the very value that the body or hook returned, or a
    /// [`Panicked`](super::Panicked).
    pub fn error(&self) -> &'a (dyn Error + Send + Sync + 'static) {
        self.error
    }
    /// What failed afterwards.
    pub fn attached(&self) -> &'a [Failure] {
        self.attached
    }
    /// Whether it ends here: an execution that is dropped has nobody else to tell. Otherwise the
    /// caller is told, too.
    pub fn is_handled(&self) -> bool {
        self.handled
    }
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }
    /// Who ran it: see [`Executor::with_source`](super::Executor::with_source).
    pub fn source(&self) -> &'a str {
        self.source
    }
}

/// Who is told of failed executions.
pub(crate) type Reporter = Box<dyn Fn(&Report<'_>) + Send + Sync>;
