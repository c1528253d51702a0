//! A user's runtime, and its use made safe: its panics, its end, and a time that is paused.

use crate::kernel::user_code::{UserValue, contain};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A boxed future that may be sent to another thread.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The runtime operations that an [`AsyncPeriodicExecutor`](crate::AsyncPeriodicExecutor) needs.
///
/// A panic of the timer, or of the clone of a task's waker, ends the run as a panic of the target does. A panic of a
/// waker that is woken or dropped is contained.
///
/// With the feature `tokio`, `periodic_executor::Tokio` implements it for tokio. This is how a program implements it:
/// ```
/// use cabrank::periodic_executor::{BoxFuture, Joined, Runtime};
/// use cabrank::AsyncPeriodicExecutor;
/// use std::time::{Duration, Instant};
///
/// struct Tokio;
/// impl Runtime for Tokio {
///     type Sleep = tokio::time::Sleep;
///     fn spawn(&self, task: BoxFuture<()>) {
///         tokio::spawn(task);
///     }
///     fn sleep_until(&self, at: Instant) -> tokio::time::Sleep {
///         tokio::time::sleep_until(at.into())
///     }
/// }
///
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// runtime.block_on(async {
///     let mut left = 3;
///     let interval = Duration::from_millis(1);
///     let countdown = AsyncPeriodicExecutor::builder(interval, Tokio).build(move || {
///         left -= 1;
///         async move { left > 0 }
///     });
///     countdown.open()?;
///     assert_eq!(countdown.join().await?, Joined::Finished);
///     Ok::<(), Box<dyn std::error::Error>>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Runtime: Send + Sync + 'static {
    /// A future that is ready at its time.
    type Sleep: Future<Output = ()> + Send + 'static;
    /// Spawns the task, which the runtime then polls to its end.
    ///
    /// A panic here makes the open fail with [`NotStarted`](crate::periodic_executor::OpenError::NotStarted), unless the
    /// task has already been polled: then the task goes on. A task polled for the first time after the panic is ready
    /// at once and calls no target.
    fn spawn(&self, task: BoxFuture<()>);
    /// Returns a future that is ready at the time `at`.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;
}

/// A timer that ends earlier than this does not keep the system's time.
const EARLY: Duration = Duration::from_millis(100);

/// A runtime whose panics are contained.
pub(crate) struct SafeRuntime<R>(Arc<UserValue<R>>);

impl<R> Clone for SafeRuntime<R> {
    fn clone(&self) -> Self {
        SafeRuntime(self.0.clone())
    }
}

impl<R> SafeRuntime<R> {
    pub(crate) fn new(runtime: R) -> Self {
        SafeRuntime(Arc::new(UserValue::new(runtime)))
    }
    /// Returns the runtime itself, for a caller that contains its panics.
    pub(crate) fn uncontained(&self) -> &R {
        &self.0
    }
}

impl<R: Runtime> SafeRuntime<R> {
    /// Spawns the task. Returns the message of the runtime's panic, which may have dropped the task.
    pub(crate) fn spawn(&self, task: BoxFuture<()>) -> Result<(), String> {
        contain(|| self.0.spawn(task))
    }
    pub(crate) fn sleep_until(&self, at: Instant) -> Sleep<R> {
        Sleep { runtime: self.clone(), at, sleep: None }
    }
    /// Polls the only sleep of a task, until this time.
    pub(crate) fn poll_sleep(
        &self,
        sleep: &mut Option<Sleep<R>>,
        at: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Rang, String>> {
        // A wake may have brought the time forward. Drop the former sleep first: a task has at most one.
        sleep.take_if(|former| former.at != at);
        Pin::new(sleep.get_or_insert_with(|| self.sleep_until(at))).poll(cx)
    }
}

/// How a runtime's timer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rang {
    /// It may be a little early.
    InTime,
    /// The runtime's time is not the system's: it is paused, and ends timer after timer.
    FarTooEarly,
}

/// A sleep of a runtime. Returns the message of a panic of the runtime's timer.
pub(crate) struct Sleep<R: Runtime> {
    runtime: SafeRuntime<R>,
    at: Instant,
    /// The first poll sets it.
    sleep: Option<UserValue<Pin<Box<R::Sleep>>>>,
}

impl<R: Runtime> Future for Sleep<R> {
    type Output = Result<Rang, String>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Sleep { runtime, at, sleep } = &mut *self;
        let begin = || UserValue::new(Box::pin(runtime.0.sleep_until(*at)));
        let polled = contain(|| sleep.get_or_insert_with(begin).as_mut().poll(cx));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) if Instant::now() + EARLY < *at => {
                Poll::Ready(Ok(Rang::FarTooEarly))
            }
            Ok(Poll::Ready(())) => Poll::Ready(Ok(Rang::InTime)),
            Err(message) => Poll::Ready(Err(message)),
        }
    }
}
