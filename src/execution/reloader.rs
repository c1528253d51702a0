//! The reloader: an executor whose executions run on up-to-date code.

use super::ambient;
use super::changes::Check;
use super::error::{BoxError, ExecutionError, Failure, Refused, Stage};
use super::execution::Execution;
use super::execution_guard::ExecutionGuard;
use super::executor::Executor;
use super::interlock::{Caller, Loading};
use super::reloader_builder::ReloaderBuilder;
use super::reloading::{Reloading, Steps, When, reload_failed};
use crate::section::now;
use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

/// Runs application code, which it reloads after a change. It is for the outermost caller (a server, a worker).
/// Nested calls use the [`Executor`], or only call their body.
///
/// Before the body, it checks for changes. If there are any, it waits until no execution runs (the interlock's unload
/// mode), unloads, and lets the others go on. Alternatively it unloads after each body, changed or not:
/// [`ReloaderBuilder::always`].
///
/// ```
/// use cabrank::execution::interlock::Loaded;
/// use cabrank::execution::{Executor, Interlock, Reloader};
/// use std::fs;
/// use std::sync::Arc;
///
/// # let file = std::env::temp_dir().join(format!("cabrank-doc-{}.txt", std::process::id()));
/// fs::write(&file, "the first text")?;
/// let page = Arc::new(Loaded::new());
/// let (path, unloaded, prepared) = (file.clone(), page.clone(), page.clone());
/// let reloader = Reloader::builder(Executor::builder().interlock(Interlock::new()).build())
///     .watch_files([&file])
///     .unload(move |unloading| Ok(unloaded.clear(unloading)))
///     .to_prepare(move |loading| Ok(prepared.set(fs::read_to_string(&path)?, loading)))
///     .build()?;
/// let read = || reloader.wrap(|execution| Ok(execution.get(&page).ok_or("it is not prepared")?.clone()));
///
/// reloader.prepare()?; // when the program starts; afterwards each reload does it
/// assert_eq!(read()?, "the first text");
/// fs::write(&file, "the second one")?;
/// assert_eq!(read()?, "the second one");
/// # fs::remove_file(file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A reload that fails
/// Its execution fails without running its body. The loaded code is then neither old nor new. Until a reload succeeds,
/// no execution of the interlock's executors begins: it fails with [`Refused::ReloadFailed`].
///
/// The next execution of the reloader tries again at once if the check reports a new change. A closure reports a new
/// change when it has returned false since the failure. Otherwise the reloader tries again after a pause of 100 ms,
/// which doubles up to 5 s while the same source fails.
///
/// An interlock has one reloader at a time. Another may be built once all clones of the first are dropped and its
/// executions have ended. After a failed reload, it reloads first, by its own steps.
#[derive(Clone)]
pub struct Reloader {
    executor: Executor,
    reloading: Arc<Reloading>,
}

impl Reloader {
    /// Returns a builder of a reloader over `executor`.
    pub fn builder(executor: Executor) -> ReloaderBuilder {
        ReloaderBuilder {
            executor,
            check: Check::Never,
            steps: Steps::default(),
            when: When::OnChange,
            acquire_timeout: None,
            is_enabled: true,
        }
    }
    pub(crate) fn new(executor: Executor, reloading: Arc<Reloading>) -> Self {
        Reloader { executor, reloading }
    }

    /// Returns the executor inside, for code that must not reload.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Reloads if that is due, and runs the body as [`Executor::wrap`] does.
    ///
    /// Inside an execution of this reloader, on the same thread or in the same future, it only calls its body.
    ///
    /// # Errors
    /// Those of [`Executor::wrap`] and of the reload. [`Refused::InsideExecution`] inside another execution, if a
    /// reload is due.
    ///
    /// # Panics
    /// As [`Executor::wrap`].
    #[track_caller]
    pub fn wrap<R>(
        &self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        let caller = self.executor.thread();
        let body = async |execution: &mut Execution<'_>| body(execution);
        now(self.wrap_by(body, caller))
    }
    /// [`wrap`](Self::wrap) as a future. The polling thread calls the hooks and the reload's steps.
    ///
    /// # Cancel safety
    /// As [`Executor::wrap_async`]. Failures are reported. The next execution makes a missed reload.
    #[track_caller]
    pub fn wrap_async<R, F>(&self, body: F) -> impl Future<Output = Result<R, ExecutionError>>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let caller = self.executor.task();
        self.wrap_by(body, caller)
    }

    /// Reloads if that is due, runs the hooks, and returns a guard that completes them, as [`Executor::run`] does.
    ///
    /// A guard that is dropped instead of completed does not wait. If it must unload at its end, the next execution
    /// does so before its body.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) before the body.
    #[track_caller]
    pub fn run(&self) -> Result<ExecutionGuard, ExecutionError> {
        now(self.start(self.executor.thread())).map(ExecutionGuard::new)
    }
    /// [`run`](Self::run) as a future, for an execution that may move between threads: see [`Executor::run_async`].
    ///
    /// # Cancel safety
    /// Dropping the future completes the hooks that have run, and reports the failures so far. The next execution
    /// makes a missed reload.
    #[track_caller]
    pub fn run_async(&self) -> impl Future<Output = Result<Execution<'static>, ExecutionError>> {
        self.start(self.executor.task())
    }

    /// Prepares without reloading: once, when the program starts. No other execution runs meanwhile.
    ///
    /// # Errors
    /// The first failure, which was reported before; later preparations were not called. [`Refused::ReloadFailed`]
    /// after a failed reload.
    #[track_caller]
    pub fn prepare(&self) -> Result<(), ExecutionError> {
        let caller = self.executor.thread();
        let prepared = now(self.prepare_alone(caller));
        prepared.map_err(|failure| self.executor.report(vec![failure], false))
    }
    async fn prepare_alone(&self, caller: Caller) -> Result<(), Failure> {
        let Some(interlock) = self.executor.interlock() else {
            return self.reloading.prepare(&mut Loading::detached());
        };
        let running = interlock.enter_by(caller).await;
        let mut running = running.map_err(|error| Failure::new(Stage::Enter, error))?;
        if let Some(refused) = reload_failed(interlock).filter(|_| !running.is_view()) {
            return Err(Failure::new(Stage::Enter, refused));
        }
        let frame = running.frame();
        self.reloading.prepare_by(&mut running, frame, caller).await
    }

    async fn wrap_by<R, F>(&self, body: F, caller: Caller) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let reloading = self.reloading()?;
        Execution::wrap(&self.executor, reloading, body, caller).await
    }
    async fn start(&self, caller: Caller) -> Result<Execution<'static>, ExecutionError> {
        Execution::start(Cow::Owned(self.executor.clone()), self.reloading()?, caller).await
    }
    /// Returns the reloader's part in an execution that begins here, unless reloading is disabled.
    ///
    /// # Errors
    /// The execution is nested, and a reload is due: it would wait for itself.
    fn reloading(&self) -> Result<Option<Arc<Reloading>>, Failure> {
        // An execution inside one of this reloader never reloads.
        let is_nested = ambient::executor(self.executor.id()) == Some(false);
        if is_nested && self.reloading.is_due()? {
            return Err(Failure::new(Stage::Unload, Refused::InsideExecution));
        }
        Ok(Some(self.reloading.clone()).filter(|reloading| reloading.when != When::Never))
    }
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("when", &self.reloading.when).finish_non_exhaustive()
    }
}
