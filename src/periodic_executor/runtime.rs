//! The runtime of an executor with tasks, and its timer.

use crate::kernel::user_code::UserValue;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A boxed future that may be sent to another thread.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The runtime operations that an [`AsyncPeriodicExecutor`](super::AsyncPeriodicExecutor) needs.
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
    /// A panic here makes the open fail with [`OpenError::NotStarted`](super::OpenError::NotStarted), unless the task
    /// has already been polled: then the task goes on. A task polled for the first time after the panic is ready at
    /// once and calls no target.
    fn spawn(&self, task: BoxFuture<()>);
    /// Returns a future that is ready at the time `at`.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;
}

/// A timer that ends earlier than this does not keep the system's time.
pub(crate) const EARLY: Duration = Duration::from_millis(100);

/// A time, and the runtime's sleep until then.
pub(super) type Timer<R> = (Instant, UserValue<Pin<Box<<R as Runtime>::Sleep>>>);

/// Polls the timer for this time.
pub(super) fn poll_timer<R: Runtime>(
    sleep: &mut Option<Timer<R>>,
    runtime: &R,
    at: Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    // A wake may have brought the time forward. Drop the former timer first: a task has at most one.
    sleep.take_if(|(due, _)| *due != at);
    let (_, timer) =
        sleep.get_or_insert_with(|| (at, UserValue::new(Box::pin(runtime.sleep_until(at)))));
    timer.as_mut().poll(cx)
}
