//! The executor: hooks around each piece of application code that a framework calls.

use super::ambient::Ambient;
use super::error::{BoxError, ExecutionError, Failure, HalfReloaded, Stage};
use super::guard::{Entry, Execution};
use super::hooks::{Hook, Hooks};
use super::interlock::Interlock;
use super::preparing::Preparing;
use super::report::{Report, Reporter, Severity};
use crate::user_code::{UserValue, contain};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

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
/// Inside a [`wrap`](Self::wrap), on the same thread or in the same future, the same executor runs no hooks. A nested
/// `wrap` only calls its body, and the execution of a nested [`run`](Self::run) completes no hooks. Different
/// executors nest.
#[derive(Clone)]
pub struct Executor {
    pub(crate) inner: Arc<Inner>,
    source: Cow<'static, str>,
}

pub(crate) struct Inner {
    pub(crate) hooks: Hooks,
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
        Executor { inner: self.inner.clone(), source: source.into() }
    }

    /// Whether this executor is running on this thread: inside a `wrap`, a hook, or an [`Execution::within`].
    pub fn is_active(&self) -> bool {
        Ambient::is(self.id())
    }

    /// Runs the hooks and the body, and completes the hooks in reverse order.
    ///
    /// Inside an execution of another executor of the same interlock, this one has a share of its own, which
    /// [`Execution::running`] does not return. Load by the outer execution. If a concurrent future or thread has
    /// borrowed the outer share and given it up, this call waits for the current holder.
    ///
    /// # Errors
    /// - The first failure: a hook's run (the body was then not run), else the body, else a hook's complete. Later
    ///   failures are attached. The error was reported before. If a hook cannot be completed, the value of a
    ///   successful body is lost.
    /// - Nested: the body's own error, which is not reported.
    /// - [`AcquireError::Nested`] where the outer execution concurrently loads or unloads, or is about to. That may
    ///   be a future of this thread, for which this call would wait for ever.
    ///
    /// [`AcquireError::Nested`]: super::interlock::AcquireError::Nested
    ///
    /// # Panics
    /// Only if the body does, after the hooks were completed and the panic was reported.
    pub fn wrap<R>(
        &self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        if self.is_active() {
            return self.nest(body);
        }
        Execution::start(self.clone(), Entry::Scope, None)?.carry(body)
    }

    /// Only calls the body: the executor is active already.
    pub(crate) fn nest<R>(
        &self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        let mut execution = Execution::nested_here(self.clone())?;
        execution.within(body).map_err(ExecutionError::of_body)
    }
    pub(crate) async fn nest_async<R, F>(&self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let execution = Execution::nested_async(self.clone()).await?;
        execution.nest_async(body).await.map_err(ExecutionError::of_body)
    }

    /// Runs the hooks, and returns an execution that completes them. For bodies that are not a closure.
    ///
    /// The thread is free meanwhile: the executor counts as running only in [`Execution::within`].
    ///
    /// # Errors
    /// - The failure of a hook's run. The hooks that had run were completed, and the error was reported before.
    /// - [`AcquireError::Nested`](super::interlock::AcquireError::Nested) where this thread, or the execution it is
    ///   in, loads or unloads under the executor's interlock: the call would wait for itself.
    pub fn run(&self) -> Result<Execution<'static>, ExecutionError> {
        if self.is_active() {
            return Ok(Execution::nested(self.clone()));
        }
        Execution::start(self.clone(), Entry::Guard, None)
    }
    /// [`run`](Self::run) for a task: waiting to enter does not block the thread. End it by
    /// [`Execution::complete_async`].
    ///
    /// # Errors
    /// Those of `run`.
    ///
    /// # Cancel safety
    /// Dropped at an await, the execution has not begun: no hook has run.
    pub async fn run_async(&self) -> Result<Execution<'static>, ExecutionError> {
        if self.is_active() {
            return Ok(Execution::nested(self.clone()));
        }
        Execution::start_async(self.clone(), Entry::Guard, None).await
    }

    /// [`wrap`](Self::wrap) for a future, on any runtime. The executor counts as running whenever the body is polled,
    /// on any thread.
    ///
    /// ```
    /// # use cabrank::execution::Executor;
    /// # async fn example(executor: Executor) -> Result<(), Box<dyn std::error::Error>> {
    /// let length = executor.wrap_async(async |_| Ok(read().await?.len())).await?;
    /// # Ok(()) }
    /// # async fn read() -> std::io::Result<String> { Ok(String::new()) }
    /// ```
    ///
    /// Inside another execution, it has a share of its own as a [child](Execution::child) of that one, and may
    /// outlive it. Otherwise it nests like [`wrap`](Self::wrap).
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap). [`AcquireError::Nested`](super::interlock::AcquireError::Nested) within a load
    /// or an unload, too: the future could be polled after it.
    ///
    /// # Panics
    /// As [`wrap`](Self::wrap).
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, then completes the hooks; the drop never waits. If it has given up its
    /// share to load or reload, and another owner holds, the holder's thread completes the hooks after its release.
    pub async fn wrap_async<R, F>(&self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        if self.is_active() {
            return self.nest_async(body).await;
        }
        Execution::start_async(self.clone(), Entry::Scope, None).await?.carry_async(body).await
    }

    /// Calls `call` without hooks, while no owner unloads.
    pub(crate) fn bare(
        &self,
        call: impl FnOnce(&mut Preparing<'_>) -> Result<(), Failure>,
    ) -> Result<(), ExecutionError> {
        let called = match self.interlock() {
            Some(interlock) => {
                let entered = interlock.run_here(|running| {
                    if interlock.is_half_reloaded_here() {
                        return Err(Failure::new(Stage::Enter, HalfReloaded));
                    }
                    call(&mut Preparing::new(Some(running)))
                });
                entered.unwrap_or_else(|refused| Err(Failure::new(Stage::Enter, refused)))
            }
            None => call(&mut Preparing::new(None)),
        };
        called.map_err(|failure| self.tell(ExecutionError::new(failure, Vec::new()), false))
    }

    /// Calls the reporter. No lock is held, and the execution is finished, or this thread is in it.
    pub(crate) fn tell(&self, error: ExecutionError, handled: bool) -> ExecutionError {
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

    pub(crate) fn interlock(&self) -> Option<&Interlock> {
        self.inner.interlock.as_ref()
    }
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }
}

impl ExecutionError {
    fn of_body(cause: BoxError) -> Self {
        ExecutionError::new(Failure::new(Stage::Body, cause), Vec::new())
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
    ///
    /// Failures of a [reset](Execution::reset) are reported within the execution, which keeps its share. Executions
    /// that the reporter begins then nest without waiting, but may not reload.
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
    /// Returns the executor.
    pub fn build(self) -> Executor {
        let ExecutorBuilder { hooks, reporter, interlock } = self;
        let inner = Inner { hooks, reporter, interlock };
        Executor { inner: Arc::new(inner), source: Cow::Borrowed("cabrank") }
    }
}

impl fmt::Debug for ExecutorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder").finish_non_exhaustive()
    }
}
