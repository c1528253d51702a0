//! The results of calls, runs, joins and opens.

use crate::kernel::clock::{Clock, Deadline, Time};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// A target's answer: when to call it next.
///
/// A target may also return `()` (continue), `bool` (true: continue, false: stop) or [`ControlFlow`].
///
/// ```
/// # use cabrank::PeriodicExecutor;
/// # use std::time::Duration;
/// use cabrank::periodic_executor::Flow;
///
/// let executor = PeriodicExecutor::builder(Duration::from_secs(60)).build(|| {
///     let connected = false; // the result of some attempt
///     if connected { Flow::Continue } else { Flow::After(Duration::from_secs(1)) }
/// });
/// # drop(executor);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flow {
    /// Call again after the executor's interval.
    Continue,
    /// Call again after this time, for this pause only. The minimum interval still holds.
    After(Duration),
    /// Call again when the executor is woken.
    Idle,
    /// Stop. A later open starts a new run.
    Stop,
}

impl From<()> for Flow {
    fn from((): ()) -> Self {
        Flow::Continue
    }
}

impl From<bool> for Flow {
    fn from(goes_on: bool) -> Self {
        if goes_on { Flow::Continue } else { Flow::Stop }
    }
}

impl<B> From<ControlFlow<B>> for Flow {
    fn from(flow: ControlFlow<B>) -> Self {
        Flow::from(flow.is_continue())
    }
}

/// The result of one call of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Flow(Flow),
    /// Call again at this time, whenever the call ended.
    Until(Deadline),
    /// The weakly referenced target is gone.
    Gone,
}

impl Verdict {
    /// Calls again when the next work is due, or when the executor is woken.
    pub(crate) fn when_due(next: Option<Time>, clock: &Clock) -> Verdict {
        next.map_or(Flow::Idle.into(), |due| Verdict::Until(clock.deadline_at(due)))
    }
}

impl From<Flow> for Verdict {
    fn from(flow: Flow) -> Self {
        Verdict::Flow(flow)
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    Joined(Joined),
    Panicked(Arc<str>),
}

impl Ended {
    pub(super) fn result(self) -> Result<Joined, JoinError> {
        match self {
            Ended::Joined(joined) => Ok(joined),
            Ended::Panicked(message) => Err(JoinError::Panicked(message)),
        }
    }
}

/// Why a join returned without an error.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::{Flow, Joined};
/// use std::time::Duration;
///
/// let once = PeriodicExecutor::builder(Duration::from_secs(1)).build(|| Flow::Stop);
/// assert_eq!(once.join()?, Joined::NeverOpened);
/// once.open()?;
/// assert_eq!(once.join()?, Joined::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Joined {
    /// The executor has never been opened.
    NeverOpened,
    /// The executor was closed, or its last handle was dropped.
    Closed,
    /// The target returned [`Flow::Stop`].
    Finished,
    /// The weakly referenced target is gone.
    TargetGone,
    /// The thread or task could not be started, or the runtime dropped the task.
    ///
    /// A concurrent open may have returned success before the start failed; its caller sees the failure here.
    Abandoned,
    /// The executor's own thread or task called the join. It cannot wait for itself.
    Itself,
    /// The executor was opened before this process was forked, so its thread or task is in the parent only.
    Forked,
}

/// Why a join failed.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::JoinError;
/// use std::time::Duration;
///
/// let executor = PeriodicExecutor::builder(None).build(|| {});
/// executor.open()?;
/// assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut)); // it is still open
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The run has not ended within the timeout, or its thread is not gone.
    TimedOut,
    /// The target panicked with this message, or the runtime's timer or waker between two calls.
    ///
    /// The executor has stopped and can be opened again.
    Panicked(Arc<str>),
    /// The runtime's timer panicked with this message, so the join cannot time out. The run has not ended.
    NoTimer(String),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::TimedOut => f.write_str("the executor has not stopped in time"),
            JoinError::Panicked(message) => write!(f, "the executor's target panicked: {message}"),
            JoinError::NoTimer(message) => write!(f, "the runtime's timer panicked: {message}"),
        }
    }
}

impl std::error::Error for JoinError {}

/// Why an open failed.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::{OpenError, Registry};
/// use std::time::Duration;
///
/// let registry = Registry::new();
/// let executor = PeriodicExecutor::builder(None).registry(&registry).build(|| {});
/// registry.shutdown(Duration::from_secs(1))?;
/// assert!(matches!(executor.open(), Err(OpenError::ShutDown)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The executor's registry was shut down and refuses every open.
    ShutDown,
    /// The executor was opened before this process was forked, and its target is in the parent's run.
    ///
    /// Build another executor in the child.
    Forked,
    /// The thread could not be started, or the runtime refused the task, for this reason.
    NotStarted(SharedError),
}

/// An error of any type, or a message, which clones of an [`OpenError`] share.
type SharedError = Arc<dyn std::error::Error + Send + Sync>;

/// An error of any type, or a message.
pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl OpenError {
    pub(super) fn not_started(why: BoxError) -> Self {
        OpenError::NotStarted(why.into())
    }
}

/// Two errors for the same reason are clones of each other.
impl PartialEq for OpenError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (OpenError::ShutDown, OpenError::ShutDown) => true,
            (OpenError::Forked, OpenError::Forked) => true,
            (OpenError::NotStarted(one), OpenError::NotStarted(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Forked => {
                f.write_str("the executor was opened in the parent of this forked process")
            }
            OpenError::ShutDown => f.write_str("executors have been shut down"),
            OpenError::NotStarted(_) => f.write_str("the executor could not be started"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::ShutDown | OpenError::Forked => None,
            OpenError::NotStarted(why) => Some(&**why),
        }
    }
}

/// The present activity of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// No run: the executor was never opened, or its last run has ended.
    Stopped,
    /// The run is awake: it calls the target, or is about to call, to sleep or to end.
    Busy,
    /// The run sleeps between two calls.
    Asleep,
}
