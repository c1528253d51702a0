//! What a target answers, and how runs end.

use crate::clock::Deadline;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// What a target wants next. From `()`: to go on. From `bool`, as in the source: whether to go on. From
/// [`ControlFlow`]: to go on, or to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To be called again after the executor's interval.
    Continue,
    /// To be called again after this time, this once; but not before the minimum interval has passed.
    After(Duration),
    /// To be called again when the executor is woken, and not before.
    Idle,
    /// To be called no more, until the executor is opened again.
    Stop,
}

impl From<()> for Flow {
    fn from((): ()) -> Self {
        Flow::Continue
    }
}

impl From<bool> for Flow {
    fn from(go_on: bool) -> Self {
        if go_on { Flow::Continue } else { Flow::Stop }
    }
}

impl<B> From<ControlFlow<B>> for Flow {
    fn from(flow: ControlFlow<B>) -> Self {
        Flow::from(flow.is_continue())
    }
}

/// What came of one call of the target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    Flow(Flow),
    /// It is to be called again at a time that does not depend on when the call has ended.
    Until(Deadline),
    /// The target that was referred to weakly is no more.
    Gone,
}

impl From<Flow> for Verdict {
    fn from(flow: Flow) -> Self {
        Verdict::Flow(flow)
    }
}

/// How a run ended: the executor's threads or tasks are runs, each from an open to its end.
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

/// Why there was nothing more to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Joined {
    /// The executor has never been opened.
    NeverOpened,
    /// It was closed, or its last handle was dropped.
    Closed,
    /// Its target said so: [`Flow::Stop`].
    Finished,
    /// Its target, which it refers to weakly, is no more.
    TargetGone,
    /// Its thread or task could not be started, or the runtime has dropped its task. Whoever was told that it
    /// is open while another could not start it, and once more could not, is told by this.
    Abandoned,
    /// It is its own thread or task that asks, which cannot wait for itself.
    Itself,
}

/// Why a join does not say that all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The run has not ended within the time given.
    TimedOut,
    /// The target panicked, or what its task needs of the runtime between two calls: its timer, or the clone of
    /// a waker. This is what it said. The executor has stopped, and can be opened again.
    Panicked(Arc<str>),
    /// The run has not ended, and the runtime's timer panicked, with this: whoever waits cannot be woken in time.
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

/// Why an executor could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// Its registry has been shut down: nothing is opened any more.
    ShutDown,
    /// Its thread could not be started, or the runtime does not take its task.
    NotStarted(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::ShutDown => f.write_str("executors have been shut down"),
            OpenError::NotStarted(why) => write!(f, "the executor could not be started: {why}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What an executor is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is not open: never opened, or its last run has ended.
    Stopped,
    /// It calls its target, is about to, or is about to sleep or to end.
    Busy,
    /// It sleeps between two calls.
    Asleep,
}
