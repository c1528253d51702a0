//! The executor: hooks around each piece of application code that a framework calls.

use super::ambient;
use super::error::{BoxError, ExecutionError, Stage};
use super::execution::Execution;
use super::execution_guard::ExecutionGuard;
use super::hooks::{Hook, Hooks};
use super::interlock::{Caller, Interlock};
use super::report::{Report, Reporter, Severity};
use crate::section::now;
use crate::user_code::{UserValue, contain};
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs application code with hooks before and after it. Cheap to clone: all clones are the same executor.
///
/// ```
/// use cabrank::execution::Executor;
///
/// let executor = Executor::builder()
///     .hook((|| Ok("connection 7"), |connection| Ok(println!("{connection} is given back"))))
///     .reporter(|report| eprintln!("{}: {}", report.source(), report.error()))
///     .build();
///
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
/// Executors of one interlock that nest are one owner there: the inner execution waits for no other owner, and may
/// load. Inside a [permit block](super::interlock::Running::permit_loads) it is an owner of its own.
#[derive(Clone)]
pub struct Executor {
    inner: Arc<Inner>,
    source: Cow<'static, str>,
    acquire_timeout: Option<Duration>,
}

struct Inner {
    hooks: Hooks,
    reporter: Option<UserValue<Reporter>>,
    interlock: Option<Interlock>,
}

impl Executor {
    /// Returns a builder of an executor.
    pub fn builder() -> ExecutorBuilder {
        ExecutorBuilder::default()
    }

    /// Returns the same executor, with a name for its reports; the default is `"cabrank"`.
    pub fn with_source(&self, source: impl Into<Cow<'static, str>>) -> Self {
        Executor { source: source.into(), ..self.clone() }
    }
    /// Returns the same executor with another time limit, unless that is `None`.
    pub(crate) fn with_acquire_timeout(&self, timeout: Option<Duration>) -> Self {
        Executor { acquire_timeout: timeout.or(self.acquire_timeout), ..self.clone() }
    }

    /// Whether this executor is active on this thread: inside a `wrap`, below a `run`, inside a hook or an
    /// [`Execution::within`].
    pub fn is_active(&self) -> bool {
        ambient::executor(self.id()).is_some()
    }

    /// Runs the hooks and the body, and completes the hooks in reverse order.
    ///
    /// # Errors
    /// - The first failure: entering the interlock or a hook's run (the body was then not run), else the body, else a
    ///   hook's complete. Later failures are attached. The error was reported before. If a hook cannot be completed,
    ///   the value of a successful body is lost.
    /// - [`Refused::ReloadFailed`](super::Refused) after a failed reload of the interlock.
    /// - Nested: the body's own error, which is not reported.
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
        now(async { Execution::start(self.clone(), None, caller).await?.carry(body, caller).await })
    }
    /// [`wrap`](Self::wrap) for a future, on any runtime. The executor is active whenever the body is polled, on any
    /// thread.
    ///
    /// ```
    /// # use cabrank::execution::Executor;
    /// # async fn example(executor: Executor) -> Result<(), Box<dyn std::error::Error>> {
    /// let length = executor.wrap_async(async |_| Ok(read().await?.len())).await?;
    /// # Ok(()) }
    /// # async fn read() -> std::io::Result<String> { Ok(String::new()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap).
    ///
    /// # Panics
    /// As [`wrap`](Self::wrap).
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, completes the hooks on the dropping thread, and leaves. The drop never
    /// waits.
    #[track_caller]
    pub fn wrap_async<R, F>(&self, body: F) -> impl Future<Output = Result<R, ExecutionError>>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let caller = self.task();
        async move { Execution::start(self.clone(), None, caller).await?.carry(body, caller).await }
    }

    /// Runs the hooks, and returns a guard that completes them. For bodies that are not a closure.
    ///
    /// Until the guard is completed or dropped, the executor is active on this thread, and the guard stays there. For
    /// an execution that moves, see [`run_async`](Self::run_async).
    ///
    /// ```
    /// # use cabrank::execution::Executor;
    /// let executor = Executor::builder().to_complete(|| Ok(println!("bye"))).build();
    /// let execution = executor.run()?;
    /// executor.wrap(|_| Ok(println!("nested")))?;
    /// execution.complete()?; // prints "bye"
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) before the body. The hooks that had run were completed.
    #[track_caller]
    pub fn run(&self) -> Result<ExecutionGuard, ExecutionError> {
        now(Execution::start(self.clone(), None, self.thread())).map(ExecutionGuard::new)
    }
    /// Runs the hooks, and returns an execution that may move between threads: for a layer whose body outlives its
    /// call, such as a streamed response. Waiting to enter does not block the thread.
    ///
    /// The executor is active only inside [`Execution::within`] and [`within_async`](Execution::within_async). End the
    /// execution by [`complete_async`](Execution::complete_async), or drop it.
    ///
    /// # Errors
    /// Those of [`run`](Self::run).
    ///
    /// # Cancel safety
    /// Dropping the future completes the hooks that have run. Dropped before it has entered, it has run no hook.
    #[track_caller]
    pub fn run_async(
        &self,
    ) -> impl Future<Output = Result<Execution<'static>, ExecutionError>> + use<> {
        Execution::start(self.clone(), None, self.task())
    }

    /// Calls the reporter. No lock is held, and the execution has left.
    pub(crate) fn report(&self, error: ExecutionError, handled: bool) -> ExecutionError {
        if let Some(reporter) = &self.inner.reporter {
            let severity = match error.stage() {
                Stage::Complete => Severity::Warning,
                _ => Severity::Error,
            };
            let report = Report {
                error: error.cause(),
                attached: error.attached(),
                handled,
                severity,
                source: &self.source,
            };
            // A panic of the reporter has no receiver.
            let _ = contain(|| reporter(&report));
        }
        error
    }

    /// The caller waits as a thread.
    #[track_caller]
    pub(crate) fn thread(&self) -> Caller {
        Caller::thread(self.limit())
    }
    /// The caller waits as a task.
    #[track_caller]
    pub(crate) fn task(&self) -> Caller {
        Caller::task(self.limit())
    }
    fn limit(&self) -> Option<Duration> {
        self.acquire_timeout.or_else(|| self.interlock()?.acquire_timeout())
    }

    pub(crate) fn interlock(&self) -> Option<&Interlock> {
        self.inner.interlock.as_ref()
    }
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.inner.hooks
    }
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("source", &self.source).finish_non_exhaustive()
    }
}

/// Builds an executor. Its hooks are listed outermost first.
#[derive(Default)]
#[must_use]
pub struct ExecutorBuilder {
    hooks: Hooks,
    reporter: Option<UserValue<Reporter>>,
    interlock: Option<Interlock>,
    acquire_timeout: Option<Duration>,
}

#[allow(clippy::wrong_self_convention, reason = "`to_run` and `to_complete` are Rails' names")]
impl ExecutorBuilder {
    /// Adds a hook inside the others: it runs after them, and is completed before them.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(hook);
        self
    }
    /// Adds a hook outside the others: it runs before them, and is completed after them.
    pub fn outer_hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push_outer(hook);
        self
    }
    /// Adds a hook with a run half only.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds a hook with a complete half only. It is called at its place among the hooks, even if a run has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push_complete(complete);
        self
    }
    /// Sets the reporter. It is called once for each execution that fails, when the execution has left, without any
    /// lock. Its panics are contained.
    pub fn reporter(mut self, reporter: impl Fn(&Report<'_>) + Send + Sync + 'static) -> Self {
        self.reporter = Some(UserValue::new(Box::new(reporter)));
        self
    }
    /// Sets the interlock. Each execution enters it before its first hook runs, and leaves it once all are completed.
    /// Without one, executions enter no interlock.
    pub fn interlock(mut self, interlock: Interlock) -> Self {
        self.interlock = Some(interlock);
        self
    }
    /// Callers each wait of an execution for the interlock: to enter, and to reload. The default is the interlock's own
    /// [limit](super::interlock::InterlockBuilder::acquire_timeout).
    ///
    /// The execution then fails with [`AcquireError::TimedOut`](super::interlock::AcquireError::TimedOut), which
    /// carries the dump of the interlock.
    pub fn acquire_timeout(mut self, timeout: Duration) -> Self {
        self.acquire_timeout = Some(timeout);
        self
    }
    /// Returns the executor.
    pub fn build(self) -> Executor {
        let ExecutorBuilder { hooks, reporter, interlock, acquire_timeout } = self;
        let inner = Arc::new(Inner { hooks, reporter, interlock });
        Executor { inner, source: Cow::Borrowed("cabrank"), acquire_timeout }
    }
}

impl fmt::Debug for ExecutorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder").finish_non_exhaustive()
    }
}
