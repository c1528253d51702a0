//! The executor: hooks around each piece of application code that a framework calls.

use super::ambient::{self, Within};
use super::error::{BoxError, ExecutionError, Failure};
use super::execution::Execution;
use super::hooks::{Hook, Hooks};
use super::interlock::{Caller, Interlock, Running};
use super::named::opaque;
use crate::kernel::section::now;
use crate::kernel::user_code::{UserValue, contain};
use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs application code with hooks before and after it. Cheap to clone: all clones are the same executor.
///
/// ```
/// use cabrank::execution::Executor;
///
/// let executor = Executor::builder().to_complete(|| Ok(println!("the cache is cleared"))).build();
/// let answer = executor.wrap(|_| Ok(6 * 7))?;
/// assert_eq!(answer, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Reentrancy
/// Inside an execution, on the same thread or in the same future, the executor is *active*. A nested
/// [`wrap`](Self::wrap) then only calls its body, and a nested [`run`](Self::run) runs no hooks. Different executors
/// nest with hooks of their own.
///
/// Executors of one interlock that nest are [one owner](super::interlock#nesting) there.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
    /// Absent where the interlock's own limit holds.
    acquire_timeout: Option<Option<Duration>>,
}

struct Inner {
    hooks: Hooks,
    reporter: Option<Reporter>,
    interlock: Option<Interlock>,
}

/// Called with the error of each execution that fails.
type Reporter = UserValue<Box<dyn Fn(&ExecutionError) + Send + Sync>>;

impl Executor {
    /// Returns a builder of an executor.
    pub fn builder() -> ExecutorBuilder {
        ExecutorBuilder::default()
    }

    /// Returns the same executor with another time limit, unless that is `None`.
    pub(crate) fn with_acquire_timeout(&self, timeout: Option<Option<Duration>>) -> Self {
        Executor { acquire_timeout: timeout.or(self.acquire_timeout), ..self.clone() }
    }

    /// Whether this executor is active on this thread, as in a body, in a hook or below a `run`.
    pub fn is_active(&self) -> bool {
        ambient::executor(self.id()).is_some()
    }

    /// Runs the hooks and the body, and completes the hooks in reverse order.
    ///
    /// # Errors
    /// All failures, in order, after they were reported. If the interlock or a hook's run fails, the body is not run.
    /// If only a hook's complete fails, the body's value is lost. A nested execution returns the body's own error, and
    /// does not report it.
    ///
    /// # Panics
    /// Only if the body does, after the hooks were completed and the panic was reported.
    #[track_caller]
    pub fn wrap<R>(
        &self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        let caller = self.thread();
        let body = async |execution: &mut Execution<'_>| body(execution);
        now(Execution::wrap(self, None, body, caller))
    }
    /// Wraps a body as [`wrap`](Self::wrap) does, in a future. The executor is active whenever the body is polled.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, completes the hooks on the dropping thread, and leaves. The drop waits only
    /// where a hook does.
    #[track_caller]
    pub fn wrap_async<R, F>(&self, body: F) -> impl Future<Output = Result<R, ExecutionError>>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let caller = self.task();
        Execution::wrap(self, None, body, caller)
    }

    /// Runs the hooks, and returns a guard that completes them. For bodies that are not a closure.
    ///
    /// Until the guard is completed or dropped, the executor is active on this thread. A nested guard ends with the
    /// outermost one in this respect. Keep no guard across an `.await`: other tasks of the thread would be in its
    /// execution. Use [`wrap_async`](Self::wrap_async) there.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) before the body. The hooks that had run were completed.
    #[track_caller]
    pub fn run(&self) -> Result<ExecutionGuard, ExecutionError> {
        now(Execution::start(Cow::Owned(self.clone()), None, self.thread()))
            .map(ExecutionGuard::new)
    }
    /// Begins an execution as [`run`](Self::run) does, in a future. The execution may move between threads: a
    /// streamed response, for example, outlives the call that began it.
    ///
    /// The executor is active only inside [`Execution::within`] and [`within_async`](Execution::within_async). An
    /// execution that begins inside a thread's execution is a view of that one, and may load on that thread only.
    ///
    /// # Cancel safety
    /// Dropping the future completes the hooks that have run. Dropped before it has entered, it has run no hook.
    #[track_caller]
    pub fn run_async(
        &self,
    ) -> impl Future<Output = Result<Execution<'static>, ExecutionError>> + use<> {
        Execution::start(Cow::Owned(self.clone()), None, self.task())
    }

    /// Returns the failures as one error, after reporting it. No lock is held, and the execution has left.
    pub(crate) fn report(&self, failures: Vec<Failure>, was_dropped: bool) -> ExecutionError {
        let error = ExecutionError::new(failures, was_dropped);
        if let Some(reporter) = &self.inner.reporter {
            // A panic of the reporter has no receiver.
            let _ = contain(|| reporter(&error));
        }
        error
    }

    #[track_caller]
    pub(crate) fn thread(&self) -> Caller {
        Caller::thread(self.limit())
    }
    #[track_caller]
    pub(crate) fn task(&self) -> Caller {
        Caller::task(self.limit())
    }
    fn limit(&self) -> Option<Duration> {
        self.acquire_timeout.unwrap_or_else(|| self.interlock()?.acquire_timeout())
    }

    /// Returns the interlock that executions enter.
    pub fn interlock(&self) -> Option<&Interlock> {
        self.inner.interlock.as_ref()
    }
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.inner.hooks
    }
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }
}

/// A running execution, and its executor is active on this thread. [`Executor::run`](super::Executor::run) returns it.
///
/// Dropping it completes the hooks, too; failures then go to the reporter only. Guards may be dropped in any order, but
/// stay on their thread.
///
/// ```
/// use cabrank::execution::Executor;
///
/// let executor = Executor::builder().to_complete(|| Ok(println!("bye"))).build();
/// let execution = executor.run()?;
/// executor.wrap(|_| Ok(println!("nested")))?;
/// execution.complete()?; // prints "bye"
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping an execution completes it"]
pub struct ExecutionGuard {
    /// Dropped first: the reporter is called outside the execution.
    here: Within,
    execution: Execution<'static>,
}

impl ExecutionGuard {
    pub(crate) fn new(execution: Execution<'static>) -> Self {
        let here = execution.frame().enter();
        ExecutionGuard { here, execution }
    }
    /// Returns the execution's share of the interlock, as [`Execution::running`] does.
    pub fn running(&mut self) -> Option<&mut Running<'static>> {
        self.execution.running()
    }
    /// Completes every hook in reverse order, even if one fails.
    ///
    /// # Errors
    /// The failures, which were reported before.
    #[track_caller]
    pub fn complete(self) -> Result<(), ExecutionError> {
        let ExecutionGuard { here, execution } = self;
        drop(here);
        execution.complete()
    }
}

/// Builds an executor. Its hooks are listed outermost first.
///
/// ```
/// use cabrank::execution::{Executor, Interlock};
/// use std::time::Duration;
///
/// let executor = Executor::builder()
///     .interlock(Interlock::new())
///     .acquire_timeout(Duration::from_secs(30))
///     .hook((|| Ok("connection 7"), |connection| Ok(println!("{connection} is given back"))))
///     .to_complete(|| Ok(println!("completed first")))
///     .reporter(|error| eprintln!("{error}"))
///     .build();
/// # executor.wrap(|_| Ok(()))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct ExecutorBuilder {
    hooks: Hooks,
    reporter: Option<Reporter>,
    interlock: Option<Interlock>,
    /// Absent where the interlock's own limit holds.
    acquire_timeout: Option<Option<Duration>>,
}

#[allow(clippy::wrong_self_convention, reason = "`to_run` and `to_complete` are Rails' names")]
impl ExecutorBuilder {
    /// Adds a hook inside the others: it runs after them, and is completed before them.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(hook, false);
        self
    }
    /// Adds a hook with a run half only.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds a hook with a complete half only. It is also called if a run has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push((|| Ok(()), move |()| complete()), true);
        self
    }
    /// Sets the reporter. It is called once for each execution that fails, when the execution has left, without any
    /// lock. Its panics are contained.
    pub fn reporter(mut self, reporter: impl Fn(&ExecutionError) + Send + Sync + 'static) -> Self {
        self.reporter = Some(UserValue::new(Box::new(reporter)));
        self
    }
    /// Sets the interlock. Each execution enters it before its first hook runs, and leaves it once all are completed.
    pub fn interlock(mut self, interlock: Interlock) -> Self {
        self.interlock = Some(interlock);
        self
    }
    /// Limits each wait of its executions: to enter, to reload, and to load by [`Execution::running`]. `None` is no
    /// limit. Without this call, the interlock's own [limit](super::interlock::InterlockBuilder::acquire_timeout)
    /// holds, as it always does for calls of [`Interlock::run`]. At the limit, the wait fails with
    /// `AcquireError::TimedOut`.
    pub fn acquire_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = Some(timeout.into());
        self
    }
    /// Returns the executor.
    pub fn build(self) -> Executor {
        let ExecutorBuilder { hooks, reporter, interlock, acquire_timeout } = self;
        Executor { inner: Arc::new(Inner { hooks, reporter, interlock }), acquire_timeout }
    }
}

opaque!(Executor, ExecutorBuilder);
