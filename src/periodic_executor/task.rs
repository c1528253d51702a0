//! The flavour with a task, on any runtime that can spawn a future and sleep until a time.
//!
//! The state word, the pauses, the join and the end of a run are those of the thread; see `signal.rs`, `core.rs`,
//! `join.rs` and `run.rs`.

use super::builder::Builder;
use super::outcome::{Flow, JoinError, Joined, OpenError, Verdict};
use super::periodic::{Flavour, Periodic};
use super::run_task::{Call, Task, TaskTarget};
use super::weak::WeakRef;
use crate::kernel::runtime::{Runtime, SafeRuntime};
use crate::kernel::section::Patience;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Awaits a target again and again, in a task of its own on any runtime, with a pause after each call.
///
/// See the [module](super). Clones are handles to the same executor; dropping the last one closes it.
///
/// ```
/// use cabrank::periodic_executor::{BoxFuture, Joined, Runtime};
/// use cabrank::AsyncPeriodicExecutor;
/// use std::time::{Duration, Instant};
/// # use std::{pin::pin, sync::Arc, task::{Context, Poll, Wake, Waker}, thread::Thread};
/// # struct Unpark(Thread);
/// # impl Wake for Unpark {
/// #     fn wake(self: Arc<Self>) {
/// #         self.0.unpark();
/// #     }
/// # }
/// # fn block_on<T>(future: impl Future<Output = T>) -> T {
/// #     let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
/// #     let mut future = pin!(future);
/// #     loop {
/// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
/// #             Poll::Ready(value) => return value,
/// #             Poll::Pending => std::thread::park(),
/// #         }
/// #     }
/// # }
///
/// struct Threads; // a runtime with a thread for each task
/// impl Runtime for Threads {
///     type Sleep = BoxFuture<()>;
///     fn spawn(&self, task: BoxFuture<()>) {
///         std::thread::spawn(|| block_on(task));
///     }
///     fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
///         Box::pin(async move { std::thread::sleep(at - Instant::now()) })
///     }
/// }
///
/// let mut left = 3;
/// let countdown = AsyncPeriodicExecutor::builder(Duration::from_millis(1), Threads).build(move || {
///     left -= 1;
///     async move { left > 0 } // false: stop
/// });
/// countdown.open()?;
/// assert_eq!(block_on(countdown.join())?, Joined::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type AsyncPeriodicExecutor<R> = Periodic<OnRuntime<R>>;

/// The flavour of [`AsyncPeriodicExecutor`], for its [`Builder`].
pub struct OnRuntime<R>(SafeRuntime<R>);

impl<R> Clone for OnRuntime<R> {
    fn clone(&self) -> Self {
        OnRuntime(self.0.clone())
    }
}

impl<R> fmt::Debug for OnRuntime<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnRuntime").finish_non_exhaustive()
    }
}

impl<R> Flavour for OnRuntime<R> {
    type Target = TaskTarget;
    const NAME: &'static str = "AsyncPeriodicExecutor";
}

impl<R: Runtime> Builder<OnRuntime<R>> {
    /// Builds an executor that calls `target` and awaits the future that it returns. The executor is not open yet.
    pub fn build<F>(
        self,
        mut target: impl FnMut() -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        F: Future<Output: Into<Flow>> + Send + 'static,
    {
        self.calls(move || {
            let call = target();
            Box::pin(async move { Verdict::Flow(call.await.into()) })
        })
    }

    /// Builds an executor that calls `f` with the target while the target exists. The executor is not open yet.
    ///
    /// The future of `f` may keep the target alive. Unless the target's owner keeps a
    /// [`CloseOnDrop`](super::CloseOnDrop) or the only handle, the executor notices that the target is gone when the
    /// next call is due.
    pub fn build_weak<T, F>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(Arc<T>) -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        T: Send + Sync + ?Sized + 'static,
        F: Future<Output: Into<Flow>> + Send + 'static,
    {
        self.build_weak_until(target, move |target| {
            let call = f(target);
            async move { Verdict::Flow(call.await.into()) }
        })
    }

    /// Builds the same executor for an `f` that returns a [`Verdict`].
    pub(crate) fn build_weak_until<T, F>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(Arc<T>) -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        T: Send + Sync + ?Sized + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        self.calls(move || {
            let call = target.strong().map(&mut f);
            let target = target.clone();
            Box::pin(async move {
                let Some(call) = call else { return Verdict::Gone };
                let verdict = call.await;
                target.unless_gone(verdict)
            })
        })
    }

    fn calls(self, target: impl FnMut() -> Call + Send + 'static) -> AsyncPeriodicExecutor<R> {
        let (settings, flavour) = self.settings();
        Periodic::new(settings, TaskTarget(Box::new(target)), flavour)
    }
}

impl<R: Runtime> AsyncPeriodicExecutor<R> {
    /// Returns a builder for an executor on `runtime` that pauses for `interval` after each call of its target.
    ///
    /// With `None` each pause lasts until a wake.
    pub fn builder(interval: impl Into<Option<Duration>>, runtime: R) -> Builder<OnRuntime<R>> {
        Builder::new(interval.into(), OnRuntime(SafeRuntime::new(runtime)))
    }

    /// Opens the executor: spawns a task that calls the target at once, and then periodically.
    ///
    /// Otherwise like [`PeriodicExecutor::open`](super::PeriodicExecutor::open).
    ///
    /// # Errors
    /// - [`OpenError::ShutDown`]: the registry was shut down.
    /// - [`OpenError::Forked`]: the executor was open when this process was forked.
    /// - [`OpenError::NotStarted`]: the runtime panicked.
    pub fn open(&self) -> Result<(), OpenError> {
        let OnRuntime(runtime) = self.flavour();
        self.core().open(|pending| {
            let task = Task::new(pending, runtime.clone());
            Ok(runtime.spawn(Box::pin(task))?)
        })
    }

    /// Waits until the run has ended, if there is one. Ready at once if the target's own call polls it.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and has no other effect.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if the target panicked. Each join returns it until the executor is opened again.
    pub async fn join(&self) -> Result<Joined, JoinError> {
        self.core().join(Patience::Task).await
    }

    /// Waits like [`join`](Self::join), for at most `timeout` by the runtime's timer.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait and has no other effect.
    ///
    /// # Errors
    /// [`JoinError::TimedOut`], [`JoinError::Panicked`], or [`JoinError::NoTimer`] if the runtime's timer panics.
    pub async fn join_timeout(&self, timeout: Duration) -> Result<Joined, JoinError> {
        let Some(at) = Instant::now().checked_add(timeout) else { return self.join().await };
        let mut join = pin!(self.core().join(Patience::Task));
        let (OnRuntime(runtime), mut sleep) = (self.flavour(), None);
        poll_fn(|cx| match join.as_mut().poll(cx) {
            Poll::Pending => runtime.poll_sleep(&mut sleep, at, cx).map(|rang| match rang {
                Ok(_) => Err(JoinError::TimedOut),
                Err(message) => Err(JoinError::NoTimer(message)),
            }),
            ended => ended,
        })
        .await
    }
}
