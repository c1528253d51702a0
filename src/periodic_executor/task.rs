//! The flavour with a task: for any runtime that can spawn a future and tell when a time has come.
//!
//! The same word, the same end of a run, the same pauses; see `signal.rs` and `core.rs`. While it pauses
//! the task has one timer, or none if nothing is due.

use super::core::{After, Core, Handle, Inside, Pause, PendingRun, Run};
use super::outcome::{Ended, Flow, JoinError, Joined, OpenError, Phase, Verdict};
use super::task_waker::Shown;
use super::{CloseOnDrop, ExecutorBuilder};
use crate::clock::Deadline;
use crate::collections::slab_list::Key;
use crate::sync::has_failed;
use crate::user_code::{UserValue, contain};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A future on the heap that may be sent.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an [`AsyncPeriodicExecutor`] needs of a runtime.
///
/// What it gives is foreign code. A panic of its timer, or of the clone of a task's waker, ends the run as a panic
/// of the target does; one of a waker that is woken or dropped goes no further.
///
/// For tokio, for example:
/// ```
/// use cabrank::{AsyncPeriodicExecutor, BoxFuture, Joined, Runtime};
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
///     let countdown = AsyncPeriodicExecutor::builder(interval, Tokio).target(move || {
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
    /// Is ready when its time has come.
    type Sleep: Future<Output = ()> + Send + 'static;
    /// Runs the task to its end. A panic here is an [`OpenError::NotStarted`], unless the task has been polled and
    /// goes on; one that was not polled by then is ready when it is, and calls nothing.
    fn spawn(&self, task: BoxFuture<()>);
    /// Sleeps until then.
    fn sleep_until(&self, at: Instant) -> Self::Sleep;
}

/// When it is due, and the runtime's sleep until then.
type Timer<R> = (Instant, UserValue<Pin<Box<<R as Runtime>::Sleep>>>);
type Call = BoxFuture<Verdict>;
type Target = Box<dyn FnMut() -> Call + Send>;

/// Calls an asynchronous target again and again, with a pause after each call, in a task of its own; on
/// no particular runtime. See the [module](super). Clones are handles to the same executor; dropping
/// the last one closes it.
///
/// ```
/// use cabrank::{AsyncPeriodicExecutor, BoxFuture, Joined, Runtime};
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
/// let countdown = AsyncPeriodicExecutor::builder(Duration::from_millis(1), Threads).target(move || {
///     left -= 1;
///     async move { left > 0 } // false: stop
/// });
/// countdown.open()?;
/// assert_eq!(block_on(countdown.join())?, Joined::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AsyncPeriodicExecutor<R: Runtime>(Arc<Shared<R>>);

struct Shared<R> {
    handle: Handle<Target>,
    runtime: Arc<UserValue<R>>,
}

/// The flavour of [`AsyncPeriodicExecutor`], for its [`ExecutorBuilder`].
#[derive(Clone, Debug)]
pub struct OnRuntime<R>(R);

impl<R: Runtime> ExecutorBuilder<OnRuntime<R>> {
    /// The executor that calls `target`, and polls the future that this gives to its end. It is not open
    /// yet.
    pub fn target<F>(
        self,
        mut target: impl FnMut() -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        F: Future<Output: Into<Flow>> + Send + 'static,
    {
        self.calls(Box::new(move || {
            let call = target();
            Box::pin(async move { Verdict::Flow(call.await.into()) })
        }))
    }

    /// The executor that calls `f` with the target as long as there is one. It is not open yet.
    ///
    /// The target is kept for as long as `f` and its future keep what they are given. Without a [`CloseOnDrop`] (or
    /// the only handle) in its owner, its end is noticed when the next call is due.
    pub fn weak<T, F>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(Arc<T>) -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        T: Send + Sync + ?Sized + 'static,
        F: Future<Output: Into<Flow>> + Send + 'static,
    {
        self.weak_until(target, move |target| {
            let call = f(target);
            async move { Verdict::Flow(call.await.into()) }
        })
    }

    /// The same, for a target that says when it is to be called again.
    pub(crate) fn weak_until<T, F>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(Arc<T>) -> F + Send + 'static,
    ) -> AsyncPeriodicExecutor<R>
    where
        T: Send + Sync + ?Sized + 'static,
        F: Future<Output = Verdict> + Send + 'static,
    {
        self.calls(Box::new(move || {
            let call = target.upgrade().map(&mut f);
            let target = target.clone();
            Box::pin(async move {
                let Some(call) = call else { return Verdict::Gone };
                let verdict = call.await;
                // Nobody need come back for one that has gone meanwhile.
                if target.strong_count() == 0 { Verdict::Gone } else { verdict }
            })
        }))
    }

    fn calls(self, target: Target) -> AsyncPeriodicExecutor<R> {
        let (settings, OnRuntime(runtime)) = self.settings();
        let handle = Handle(Core::new(settings, target));
        AsyncPeriodicExecutor(Arc::new(Shared {
            handle,
            runtime: Arc::new(UserValue::new(runtime)),
        }))
    }
}

impl<R: Runtime> AsyncPeriodicExecutor<R> {
    /// Begins to build an executor on `runtime` that pauses for `interval` after each call of its target;
    /// `Duration::MAX`: until it is woken.
    pub fn builder(interval: Duration, runtime: R) -> ExecutorBuilder<OnRuntime<R>> {
        ExecutorBuilder::new(interval, OnRuntime(runtime))
    }

    fn core(&self) -> &Arc<Core<Target>> {
        &self.0.handle.0
    }

    /// Opens it: spawns a task, which calls the target at once, and then periodically. The rest is as
    /// in [`PeriodicExecutor::open`](super::PeriodicExecutor::open).
    ///
    /// # Errors
    /// [`OpenError::ShutDown`] if its registry has been shut down, [`OpenError::NotStarted`] if the runtime
    /// panicked; with one more try for those who have opened it meanwhile, as there.
    pub fn open(&self) -> Result<(), OpenError> {
        let runtime = &self.0.runtime;
        self.core().open(|unbegun| {
            let task = Task::new(unbegun, runtime.clone());
            contain(|| runtime.spawn(Box::pin(task)))
        })
    }

    /// Closes it: the target is not called again; a call that is under way is finished. Takes no lock of
    /// ours and allocates nothing; it may wake the task's waker, which is its runtime's.
    pub fn close(&self) {
        self.core().signal.close();
    }

    /// Has the target called soon: at once, or when `min_interval` has passed since the last call. If a
    /// call is under way, there will be another. As to locks, like [`close`](Self::close).
    pub fn wake(&self) {
        self.core().signal.wake();
    }

    /// Changes the interval, from the next pause on.
    pub fn update_interval(&self, interval: Duration) {
        self.core().update_interval(interval);
    }

    /// Leaves out the next pause, and `min_interval` with it. If a pause is under way, it is the one after
    /// it.
    pub fn skip_sleep(&self) {
        self.core().signal.skip_sleep();
    }

    /// Waits until its run has ended, if there is one. Polled within its own target's call, it is ready at
    /// once. Cancel-safe: to drop it is to wait no more.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if the target panicked; until it is opened again, to each who asks.
    pub async fn join(&self) -> Result<Joined, JoinError> {
        let mut join = Join { core: self.core(), waiter: None };
        poll_fn(|cx| join.poll(cx)).await
    }

    /// Waits likewise, for `timeout` at most, by the runtime's timer. Cancel-safe.
    ///
    /// # Errors
    /// [`JoinError::TimedOut`], [`JoinError::Panicked`]; [`JoinError::NoTimer`] if the run has not ended and the
    /// runtime's timer panics.
    pub async fn join_timeout(&self, timeout: Duration) -> Result<Joined, JoinError> {
        let Some(at) = Instant::now().checked_add(timeout) else { return self.join().await };
        let mut join = Join { core: self.core(), waiter: None };
        let mut sleep = None;
        poll_fn(|cx| match join.poll(cx) {
            Poll::Pending => match contain(|| poll_timer(&mut sleep, &**self.0.runtime, at, cx)) {
                Ok(poll) => poll.map(|()| Err(JoinError::TimedOut)),
                Err(message) => Poll::Ready(Err(JoinError::NoTimer(message))),
            },
            ended => ended,
        })
        .await
    }

    /// Whether it is open: opened, not closed since, and not stopped by its target.
    pub fn is_open(&self) -> bool {
        self.core().signal.is_open()
    }
    /// What it is doing.
    pub fn phase(&self) -> Phase {
        self.core().signal.phase()
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core().settings.name
    }
    /// What closes it when it is dropped: for the target's owner to keep.
    pub fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop(self.core().clone())
    }
}

impl<R: Runtime> Clone for AsyncPeriodicExecutor<R> {
    fn clone(&self) -> Self {
        AsyncPeriodicExecutor(self.0.clone())
    }
}

impl<R: Runtime> fmt::Debug for AsyncPeriodicExecutor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.handle.fmt("AsyncPeriodicExecutor", f)
    }
}

/// A task's place among those who wait for the end of the run.
struct Join<'a> {
    core: &'a Core<Target>,
    waiter: Option<Key>,
}

impl Join<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Joined, JoinError>> {
        self.core.poll_join(&mut self.waiter, cx)
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take()
            && !has_failed()
        {
            self.core.leave_join(waiter);
        }
    }
}

/// The task. What is left of a call is dropped first, and the run last, which ends by it.
struct Task<R: Runtime> {
    stage: Stage,
    /// The one timer.
    sleep: Option<Timer<R>>,
    runtime: Arc<UserValue<R>>,
    shown: Shown,
    unbegun: PendingRun<Target>,
    /// Absent before it has begun, and once it is over.
    run: Option<Run<Target>>,
}

enum Stage {
    /// The target is to be called.
    Begin,
    Calling(UserValue<Call>),
    Pausing(Pause),
}

impl<R: Runtime> Drop for Task<R> {
    /// The runtime drops a call that is under way: that is the target's code, and inside it, too.
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            let _inside = Inside::of(&run.core);
            self.stage = Stage::Begin;
        }
    }
}

impl<R: Runtime> Task<R> {
    fn new(unbegun: PendingRun<Target>, runtime: Arc<UserValue<R>>) -> Self {
        let (stage, sleep, shown) = (Stage::Begin, None, Shown::default());
        Task { stage, sleep, runtime, shown, unbegun, run: None }
    }

    /// Goes on as far as it can: until it has to wait, or the run would end.
    fn poll_until_it_ends(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Task { stage, sleep, runtime, shown, unbegun: _, run } = self;
        let run = run.as_mut().expect("it has begun, and is not over");
        let core = run.core.clone();
        // In this poll: the next call is for the next poll, or a target without a pause, whose futures are
        // ready at once, would never let the runtime's other tasks go on.
        let mut has_called = false;
        loop {
            let verdict = match stage {
                Stage::Begin => {
                    if !core.signal.begin_call() {
                        return Poll::Ready(Ended::Joined(Joined::Closed));
                    }
                    let _inside = Inside::of(&core);
                    match contain(|| run.target()()) {
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
                    // Drops the call, inside.
                    *stage = Stage::Begin;
                    has_called = true;
                    verdict
                }
                Stage::Pausing(pause) => {
                    match shown.by(cx.waker()).map(|own| core.sleep(pause, &own)) {
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
                                // A timer that is early has to be set again.
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

/// Lets other tasks go on, and is polled again.
fn yields<T>(cx: &Context<'_>) -> Poll<T> {
    // A runtime's waker that panics is none of the target's business.
    let _ = contain(|| cx.waker().wake_by_ref());
    Poll::Pending
}

fn poll_timer<R: Runtime>(
    sleep: &mut Option<Timer<R>>,
    runtime: &R,
    at: Instant,
    cx: &mut Context<'_>,
) -> Poll<()> {
    // A wake may have made it due earlier. The former timer goes first: there is one.
    sleep.take_if(|(due, _)| *due != at);
    let (_, timer) =
        sleep.get_or_insert_with(|| (at, UserValue::new(Box::pin(runtime.sleep_until(at)))));
    timer.as_mut().poll(cx)
}

impl<R: Runtime> Future for Task<R> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.run.is_none() {
            self.run = self.unbegun.begin();
        }
        if self.run.is_none() {
            // Its runtime has told the opener that it does not take it, who has taken it back.
            return Poll::Ready(());
        }
        let Poll::Ready(ended) = self.poll_until_it_ends(cx) else { return Poll::Pending };
        if self.run.as_mut().is_some_and(|run| run.end(ended)) {
            // It was opened again meanwhile, perhaps by the target itself.
            return yields(cx);
        }
        self.run = None;
        Poll::Ready(())
    }
}
