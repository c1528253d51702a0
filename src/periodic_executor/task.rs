//! The flavour with a task, on any runtime that can spawn a future and sleep until a time.
//!
//! The state word, the pauses and the end of a run are those of the thread; see `signal.rs`, `core.rs` and `run.rs`.
//! A pausing task has one timer, or none if it sleeps until it is woken.

use super::builder::Builder;
use super::core::{After, Pause};
use super::join::{Inside, Join};
use super::outcome::{Ended, Flow, JoinError, Joined, OpenError, Verdict};
use super::periodic::{Flavour, Periodic};
use super::run::{PendingRun, Run};
use super::task_waker::ShownWaker;
use super::weak::WeakRef;
use crate::clock::Deadline;
use crate::user_code::{UserValue, contain};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A boxed future that may be sent to another thread.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The runtime operations that an [`AsyncPeriodicExecutor`] needs.
///
/// A panic of the timer, or of the clone of a task's waker, ends the run as a panic of the target does. A panic of a
/// waker that is woken or dropped is contained.
///
/// For tokio, for example:
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
    /// A panic here makes the open fail with [`OpenError::NotStarted`], unless the task has already been polled: then
    /// the task goes on. A task polled for the first time after the panic is ready at once and calls no target.
    fn spawn(&self, task: BoxFuture<()>);
    /// Returns a future that is ready at the time `at`.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;
}

/// A time, and the runtime's sleep until then.
type Timer<R> = (Instant, UserValue<Pin<Box<<R as Runtime>::Sleep>>>);
type Call = BoxFuture<Verdict>;

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
pub struct OnRuntime<R>(Arc<UserValue<R>>);

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

/// The target of an executor with tasks.
pub struct TaskTarget(Box<dyn FnMut() -> Call + Send>);

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
        Builder::new(interval.into(), OnRuntime(Arc::new(UserValue::new(runtime))))
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
            Ok(contain(|| runtime.spawn(Box::pin(task)))?)
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
        let mut join = Join::new(self.core());
        poll_fn(|cx| join.poll(cx)).await
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
        let mut join = Join::new(self.core());
        let (OnRuntime(runtime), mut sleep) = (self.flavour(), None);
        poll_fn(|cx| match join.poll(cx) {
            Poll::Pending => match contain(|| poll_timer(&mut sleep, &***runtime, at, cx)) {
                Ok(poll) => poll.map(|()| Err(JoinError::TimedOut)),
                Err(message) => Poll::Ready(Err(JoinError::NoTimer(message))),
            },
            ended => ended,
        })
        .await
    }
}

/// The task of a run. Its fields drop in order: first the call, and last the run, which ends by that.
struct Task<R: Runtime> {
    stage: Stage,
    /// The only timer.
    sleep: Option<Timer<R>>,
    runtime: Arc<UserValue<R>>,
    shown: ShownWaker,
    pending: PendingRun<TaskTarget>,
    /// `None` before it begins, and once it has ended.
    run: Option<Run<TaskTarget>>,
}

enum Stage {
    /// About to call the target.
    Begin,
    Calling(UserValue<Call>),
    Pausing(Pause),
}

impl<R: Runtime> Drop for Task<R> {
    /// The runtime may drop a call under way. The drop of that call is target code, so it is marked as inside.
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            let _inside = Inside::of(&run.core);
            self.stage = Stage::Begin;
        }
    }
}

impl<R: Runtime> Task<R> {
    fn new(pending: PendingRun<TaskTarget>, runtime: Arc<UserValue<R>>) -> Self {
        let (stage, sleep, shown) = (Stage::Begin, None, ShownWaker::default());
        Task { stage, sleep, runtime, shown, pending, run: None }
    }

    /// Advances until the task must wait or the run would end.
    fn poll_until_it_ends(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Task { stage, sleep, runtime, shown, pending: _, run } = self;
        let run = run.as_mut().expect("the run has begun and has not ended");
        let core = run.core.clone();
        // One call in each poll: a target without a pause, whose futures are ready at once, would otherwise starve
        // the runtime's other tasks.
        let mut has_called = false;
        loop {
            let verdict = match stage {
                Stage::Begin => {
                    // A forked child may poll the task, too, where the thread that forks does.
                    core.is_in_this_process();
                    if !core.signal.begin_call() {
                        return Poll::Ready(Ended::Joined(Joined::Closed));
                    }
                    let _inside = Inside::of(&core);
                    match contain(|| (run.target().0)()) {
                        Ok(call) => {
                            *stage = Stage::Calling(UserValue::new(call));
                            continue;
                        }
                        Err(message) => Err(message),
                    }
                }
                Stage::Calling(call) => {
                    let _inside = Inside::of(&core);
                    let verdict = match contain(|| call.as_mut().poll(cx)) {
                        Ok(Poll::Pending) => return Poll::Pending,
                        Ok(Poll::Ready(verdict)) => Ok(verdict),
                        Err(message) => Err(message),
                    };
                    // Drops the call while this thread is marked as inside.
                    *stage = Stage::Begin;
                    has_called = true;
                    verdict
                }
                Stage::Pausing(pause) => {
                    match shown.wrap(cx.waker()).map(|own| core.sleep(pause, &own)) {
                        Err(message) => Err(message),
                        Ok(None) => {
                            *sleep = None;
                            *stage = Stage::Begin;
                            if has_called {
                                return yields(cx);
                            }
                            continue;
                        }
                        Ok(Some(Deadline::Never | Deadline::Manual(_))) => return Poll::Pending,
                        Ok(Some(Deadline::Real(at))) => {
                            let timer = contain(|| poll_timer(sleep, &***runtime, at, cx));
                            match timer {
                                Ok(Poll::Pending) => return Poll::Pending,
                                // The timer may be early: check the clock again.
                                Ok(Poll::Ready(())) => {
                                    *sleep = None;
                                    continue;
                                }
                                Err(message) => Err(message),
                            }
                        }
                    }
                }
            };
            *stage = match core.after(verdict) {
                After::Pause(pause) => Stage::Pausing(pause),
                After::End(ended) => {
                    *sleep = None;
                    *stage = Stage::Begin;
                    return Poll::Ready(ended);
                }
            };
        }
    }
}

/// Yields to the runtime's other tasks.
fn yields<T>(cx: &Context<'_>) -> Poll<T> {
    // A panic of the runtime's waker must not end the target's run.
    let _ = contain(|| cx.waker().wake_by_ref());
    Poll::Pending
}

fn poll_timer<R: Runtime>(
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

impl<R: Runtime> Future for Task<R> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.run.is_none() {
            self.run = self.pending.begin();
        }
        if self.run.is_none() {
            // The runtime's spawn failed, and the opener has taken the run back.
            return Poll::Ready(());
        }
        let Poll::Ready(ended) = self.poll_until_it_ends(cx) else { return Poll::Pending };
        if self.run.as_mut().is_some_and(|run| run.end(ended)) {
            // The executor was opened again meanwhile, perhaps by the target itself.
            return yields(cx);
        }
        self.run = None;
        Poll::Ready(())
    }
}
