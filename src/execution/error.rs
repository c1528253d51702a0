//! Failures of an execution: the stage and the cause of each, and those that followed.

use std::error::Error;
use std::fmt;

/// Any error of a hook or a body. `?` converts every error, and text, into it.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

/// The stages of an execution, in the order of a reload on change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Entering the interlock.
    Enter,
    /// Checking for changes.
    Check,
    /// The steps before unloading.
    BeforeUnload,
    /// Unloading, or waiting to unload.
    Unload,
    /// The steps after unloading.
    AfterUnload,
    /// The run half of a hook.
    Run,
    /// Preparing the newly loaded code.
    Prepare,
    /// The body.
    Body,
    /// The complete half of a hook.
    Complete,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Enter => "entering the interlock",
            Stage::Check => "the check for changes",
            Stage::BeforeUnload => "a hook before unloading",
            Stage::Unload => "unloading",
            Stage::AfterUnload => "a hook after unloading",
            Stage::Run => "a hook's run",
            Stage::Prepare => "preparing",
            Stage::Body => "the body",
            Stage::Complete => "a hook's complete",
        })
    }
}

/// One failure.
#[derive(Debug)]
pub struct Failure {
    stage: Stage,
    cause: BoxError,
}

impl Failure {
    pub(crate) fn new(stage: Stage, cause: impl Into<BoxError>) -> Self {
        Failure { stage, cause: cause.into() }
    }
    /// Returns the stage that failed.
    pub fn stage(&self) -> Stage {
        self.stage
    }
    /// Returns the cause, for `downcast_ref`. A panic is a [`Panicked`].
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
    }
    /// Returns the cause by value.
    pub fn into_cause(self) -> BoxError {
        self.cause
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.stage, self.cause)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// An execution's first failure, with the later ones attached.
///
/// ```
/// use cabrank::execution::{Executor, Stage};
///
/// let executor = Executor::builder().to_complete(|| Err("the cache is gone".into())).build();
/// let error = executor.wrap(|_| Err::<(), _>("no such page".into())).unwrap_err();
/// assert_eq!(error.stage(), Stage::Body);
/// assert_eq!(error.cause().to_string(), "no such page");
/// assert_eq!(error.attached()[0].cause().to_string(), "the cache is gone");
/// ```
#[derive(Debug)]
pub struct ExecutionError {
    first: Failure,
    attached: Vec<Failure>,
}

impl ExecutionError {
    pub(crate) fn only(first: Failure) -> Self {
        ExecutionError { first, attached: Vec::new() }
    }
    /// Returns the first failure with the others attached, or `None` without any.
    pub(crate) fn of(failures: Vec<Failure>) -> Option<Self> {
        let mut failures = failures.into_iter();
        Some(ExecutionError { first: failures.next()?, attached: failures.collect() })
    }
    /// Returns the stage that failed first. If it is [`Stage::Complete`], the body succeeded.
    pub fn stage(&self) -> Stage {
        self.first.stage
    }
    /// Returns the first cause, for `downcast_ref`: the body's own error, if the body failed first.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.first.cause()
    }
    /// Returns the first cause by value.
    pub fn into_cause(self) -> BoxError {
        self.first.cause
    }
    /// Returns the later failures, in order: hooks that could not be completed.
    pub fn attached(&self) -> &[Failure] {
        &self.attached
    }
}

impl fmt::Display for ExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        for failure in &self.attached {
            write!(f, "; then {failure}")?;
        }
        Ok(())
    }
}

impl Error for ExecutionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first.source()
    }
}

/// A contained panic, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(String);

impl Panicked {
    pub(crate) fn new(message: String) -> Self {
        Panicked(message)
    }
    /// Returns the panic message.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.0)
    }
}

impl Error for Panicked {}

/// Why an execution or a reload is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A reload is due, or was requested, inside an execution. It would wait for that execution, which waits for it.
    /// The next outermost execution reloads the change.
    InsideExecution,
    /// Reloading is disabled.
    Disabled,
    /// The last reload has failed, so the loaded code is neither old nor new. No execution of the interlock begins
    /// until a reload succeeds. The text is that failure's.
    ReloadFailed(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::InsideExecution => {
                f.write_str("no reload inside an execution: it would wait for its own end")
            }
            Refused::Disabled => f.write_str("reloading is disabled"),
            Refused::ReloadFailed(failure) => write!(f, "the last reload has failed: {failure}"),
        }
    }
}

impl Error for Refused {}
