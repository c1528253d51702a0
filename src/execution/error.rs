//! Failures of an execution: the stage and the cause of each, and those that followed.

use super::named::named;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Any error of a hook or a body. `?` converts each error, and `into` each text, to it.
pub type BoxError = Box<dyn Error + Send + Sync + 'static>;

named! {
    /// The stages of an execution, in the order of a reload on change.
    pub enum Stage {
        Enter "entering the interlock",
        Check "the check for changes",
        BeforeUnload "a hook before unloading",
        Unload "unloading",
        AfterUnload "a hook after unloading",
        Run "a hook's run",
        Prepare "preparing",
        Body "the body",
        Complete "a hook's complete",
    }
}

/// One failure.
#[derive(Clone, Debug)]
pub struct Failure {
    stage: Stage,
    cause: Arc<dyn Error + Send + Sync>,
}

impl Failure {
    pub(crate) fn new(stage: Stage, cause: impl Into<BoxError>) -> Self {
        Failure { stage, cause: cause.into().into() }
    }
    /// Returns the stage that failed.
    pub fn stage(&self) -> Stage {
        self.stage
    }
    /// Returns the cause, for `downcast_ref`. A panic is a [`Panicked`].
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.cause
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

/// The failures of an execution, in order.
///
/// ```
/// use cabrank::execution::{Executor, Stage};
///
/// let executor = Executor::builder().to_complete(|| Err("the cache is gone".into())).build();
/// let error = executor.wrap(|_| Err::<(), _>("no such page".into())).unwrap_err();
/// assert_eq!(error.first().stage(), Stage::Body);
/// assert_eq!(error.first().cause().to_string(), "no such page");
/// assert_eq!(error.failures()[1].cause().to_string(), "the cache is gone");
/// ```
#[derive(Debug)]
pub struct ExecutionError {
    /// At least one.
    failures: Vec<Failure>,
    was_dropped: bool,
}

impl ExecutionError {
    /// There is at least one failure.
    pub(crate) fn new(failures: Vec<Failure>, was_dropped: bool) -> Self {
        ExecutionError { failures, was_dropped }
    }
    /// Returns the first failure, which decides: if its stage is [`Stage::Complete`], the body succeeded.
    pub fn first(&self) -> &Failure {
        &self.failures[0]
    }
    /// Returns all failures, in order.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }
    /// Whether the execution was dropped, so that only the reporter gets this error.
    pub fn was_dropped(&self) -> bool {
        self.was_dropped
    }
}

impl From<Failure> for ExecutionError {
    fn from(only: Failure) -> Self {
        ExecutionError::new(vec![only], false)
    }
}

impl fmt::Display for ExecutionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first().fmt(f)?;
        self.failures[1..].iter().try_for_each(|failure| write!(f, "; then {failure}"))
    }
}

impl Error for ExecutionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.first().source()
    }
}

/// A contained panic, with its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked(pub String);

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.0)
    }
}

impl Error for Panicked {}

/// Why an execution, a reload or a reloader is refused.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Refused {
    /// A reload is due inside an execution, and would wait for its end. The next outermost execution reloads.
    InsideExecution,
    /// The last reload has failed, so the loaded code is neither old nor new. No execution of the interlock begins
    /// until a reload succeeds. The [source](Error::source) is that failure.
    ReloadFailed(Failure),
    /// The executor of a reloader has no interlock, so its executions could run during an unload.
    NoInterlock,
    /// The interlock has a reloader already: see [`Reloader`](super::Reloader).
    SecondReloader,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::InsideExecution => {
                "no reload inside an execution: it would wait for its own end"
            }
            Refused::ReloadFailed(_) => "the last reload has failed",
            Refused::NoInterlock => "the executor has no interlock: see ExecutorBuilder::interlock",
            Refused::SecondReloader => "the executor's interlock has a reloader already",
        })
    }
}

impl Error for Refused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Refused::ReloadFailed(failure) => Some(failure),
            _ => None,
        }
    }
}
