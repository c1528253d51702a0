//! The executor: hooks around every piece of application code that a framework calls.

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

/// Runs application code with hooks before and after it. Cheap to clone; clones are the same
/// executor.
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
/// Inside a [`wrap`](Self::wrap), the same executor does nothing on the same thread (or in the same
/// future): a nested `wrap` only calls its body, a nested [`run`](Self::run) gives an execution of
/// which nothing is to be completed. Different executors nest.
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
    /// An executor, to be given its hooks.
    pub fn builder() -> ExecutorBuilder {
        ExecutorBuilder::default()
    }

    /// The same executor, under the name that its reports say; `"cabrank"` without.
    pub fn with_source(&self, source: impl Into<Cow<'static, str>>) -> Self {
        Executor { inner: self.inner.clone(), source: source.into() }
    }

    /// Whether this executor is running on this thread: inside a `wrap`, a hook, or an
    /// [`Execution::within`].
    pub fn is_active(&self) -> bool {
        Ambient::is(self.id())
    }

    /// Runs the hooks, the body, and completes the hooks in reverse order.
    ///
    /// Inside an execution of another executor of the same interlock it has a share besides that one's, which
    /// [`Execution::running`] does not give: what is loaded is to be loaded by the outer one's. Where a future
    /// or thread beside this has borrowed that one's and given it up, it waits for whoever holds.
    ///
    /// # Errors
    /// What failed first: a hook's run (then the body was not run), else the body, else the first
    /// complete. Failures after it are attached. The reporter has been told. The value of a body
    /// that was well is lost if a hook cannot be completed. Nested: the body's own error, of which
    /// nobody was told. [`AcquireError::Nested`] where the execution around it loads or unloads beside this, or
    /// is about to: as it may be a future of this thread, who waits here would wait for ever.
    ///
    /// [`AcquireError::Nested`]: super::interlock::AcquireError::Nested
    ///
    /// # Panics
    /// If the body does, after the hooks were completed and the reporter told. Nothing else panics.
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

    /// Runs the hooks; the execution that is returned completes them. For bodies that are no
    /// closure.
    ///
    /// The thread is free meanwhile: the executor counts as running only in
    /// [`Execution::within`].
    ///
    /// # Errors
    /// A hook's run has failed; those that had run were completed. The reporter has been told.
    /// [`AcquireError::Nested`](super::interlock::AcquireError::Nested) where this thread, or the execution it
    /// is in, loads or unloads under the executor's interlock: it would wait for itself.
    pub fn run(&self) -> Result<Execution<'static>, ExecutionError> {
        if self.is_active() {
            return Ok(Execution::nested(self.clone()));
        }
        Execution::start(self.clone(), Entry::Guard, None)
    }
    /// [`run`](Self::run) for a task: waiting to enter does not block the thread. It is ended by
    /// [`Execution::complete_async`].
    ///
    /// # Errors
    /// Those of `run`.
    ///
    /// # Cancel safety
    /// Dropped at an await, it has not begun: no hook has run.
    pub async fn run_async(&self) -> Result<Execution<'static>, ExecutionError> {
        if self.is_active() {
            return Ok(Execution::nested(self.clone()));
        }
        Execution::start_async(self.clone(), Entry::Guard, None).await
    }

    /// [`wrap`](Self::wrap) for a future, on any runtime. The executor counts as running whenever
    /// the body is polled, on whichever thread.
    ///
    /// ```
    /// # use cabrank::execution::Executor;
    /// # async fn example(executor: Executor) -> Result<(), Box<dyn std::error::Error>> {
    /// let length = executor.wrap_async(async |_| Ok(read().await?.len())).await?;
    /// # Ok(()) }
    /// # async fn read() -> std::io::Result<String> { Ok(String::new()) }
    /// ```
    ///
    /// Inside another execution it has a share of its own, as a [child](Execution::child) of that one, and may
    /// outlive it; for the rest, as [`wrap`](Self::wrap) there.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap). [`AcquireError::Nested`](super::interlock::AcquireError::Nested) in a load or
    /// an unload, too: it could be polled when that is over.
    ///
    /// # Panics
    /// As [`wrap`](Self::wrap).
    ///
    /// # Cancel safety
    /// If it is dropped at any await, the body is dropped, and then the hooks are completed. If it has given
    /// up its share, to load or to reload, and somebody else holds just then, that happens when they have
    /// released, and by their thread: the drop waits for nobody.
    pub async fn wrap_async<R, F>(&self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        if self.is_active() {
            return self.nest_async(body).await;
        }
        Execution::start_async(self.clone(), Entry::Scope, None).await?.carry_async(body).await
    }

    /// Calls something while nobody unloads, without the hooks.
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

    /// Tells the reporter. No lock is held, and the execution is over, or this thread is in it.
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
            // Who could be told that telling failed?
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

/// An executor that is being given its hooks, outermost first.
#[derive(Default)]
#[must_use]
pub struct ExecutorBuilder {
    hooks: Hooks,
    reporter: Option<UserValue<Reporter>>,
    interlock: Option<Interlock>,
}

#[allow(
    clippy::wrong_self_convention,
    reason = "`to_run` and `to_complete` are the source's names"
)]
impl ExecutorBuilder {
    /// Adds a hook inside those there are: it runs after them, and is completed before them.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push(hook);
        self
    }
    /// Adds a hook outside those there are: it runs before them, and is completed after them.
    pub fn outer_hook(mut self, hook: impl Hook) -> Self {
        self.hooks.push_outer(hook);
        self
    }
    /// Adds a hook that has nothing to complete.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds what is called after each execution, at its place among the hooks, even if a run
    /// has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.push_complete(complete);
        self
    }
    /// Who is told of each execution that fails: once, when it is over, under no lock. What it
    /// panics with is contained.
    ///
    /// What fails in a [reset](Execution::reset) is told within the execution, which keeps its share: what the
    /// reporter executes then waits for nobody, but to reload is refused to it.
    pub fn reporter(mut self, reporter: impl Fn(&Report<'_>) + Send + Sync + 'static) -> Self {
        self.reporter = Some(UserValue::new(Box::new(reporter)));
        self
    }
    /// The interlock that each execution enters before its first hook runs, and leaves when all are
    /// completed. Without one, nothing is entered.
    pub fn interlock(mut self, interlock: Interlock) -> Self {
        self.interlock = Some(interlock);
        self
    }
    /// The executor.
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
