//! The reloader: an executor whose executions run on up-to-date code.

use super::ambient;
use super::changes::{Changes, Check, Watched};
use super::error::{BoxError, ExecutionError, Failure, Refused, Stage};
use super::execution::Execution;
use super::executor::{ExecutionGuard, Executor};
use super::hooks::Hook;
use super::interlock::{Caller, Loading, Unloading};
use super::named::opaque;
use super::reloading::{Reloading, Right, Steps, When, reload_failed};
use super::watch_files::Files;
use crate::kernel::section::now;
use crate::kernel::user_code::UserValue;
use std::borrow::Cow;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs application code, which it reloads after a change. It is for the outermost caller (a server, a worker).
/// Nested calls use the [`Executor`], or only call their body.
///
/// Before the body, it checks for changes. If there are any, it waits until no execution runs, unloads, and lets the
/// others go on. Alternatively it unloads after each body, changed or not: [`ReloaderBuilder::always`].
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

    /// Returns the executor inside, with the reloader's time limit, for code that must not reload.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Reloads if that is due, and runs the body as [`Executor::wrap`] does.
    ///
    /// Inside an execution of this reloader, it only calls its body.
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
    /// Wraps a body as [`wrap`](Self::wrap) does, in a future. The polling thread calls the hooks and the steps.
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
    /// A guard that is dropped instead of completed does not wait: the next execution makes a missed reload.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) before the body.
    #[track_caller]
    pub fn run(&self) -> Result<ExecutionGuard, ExecutionError> {
        now(self.start(self.executor.thread())).map(ExecutionGuard::new)
    }
    /// Begins an execution as [`run`](Self::run) does, in a future. The execution may move between threads: see
    /// [`Executor::run_async`].
    ///
    /// # Cancel safety
    /// As [`wrap_async`](Self::wrap_async).
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
        if let Some(refused) = reload_failed(interlock).filter(|_| !running.is_view) {
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

/// Builds a reloader.
///
/// ```
/// use cabrank::execution::{Executor, Interlock, Reloader};
///
/// let executor = Executor::builder().interlock(Interlock::new()).build();
/// let reloader = Reloader::builder(executor)
///     .watch_files(["templates"])
///     .before_unload(|| Ok(println!("the templates have changed")))
///     .enabled(cfg!(debug_assertions))
///     .build()?;
/// # Ok::<(), cabrank::execution::Refused>(())
/// ```
#[must_use]
pub struct ReloaderBuilder {
    executor: Executor,
    check: Check,
    steps: Steps,
    when: When,
    acquire_timeout: Option<Option<Duration>>,
    is_enabled: bool,
}

#[allow(clippy::wrong_self_convention, reason = "`to_run` and `to_complete` are Rails' names")]
impl ReloaderBuilder {
    /// Sets the check for changes, which is made before each body. The last of `check`, [`watch`](Self::watch) and
    /// [`watch_files`](Self::watch_files) counts.
    ///
    /// A result of `true` is kept until a reload takes it up, so the check may return it only once. If it goes on
    /// returning `true`, every execution reloads.
    pub fn check(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.check = Check::Ask(UserValue::new(Box::new(check)));
        self
    }
    /// Sets a version to compare, for example a checksum, or a counter. There is a change if it differs from the
    /// version before the last reload (or when this was called). For files, use [`watch_files`](Self::watch_files).
    ///
    /// A panic of `version` fails the execution that called it. If it panics in this call, the first execution reloads.
    pub fn watch<V: PartialEq + Send + Sync + 'static>(
        mut self,
        version: impl Fn() -> V + Send + Sync + 'static,
    ) -> Self {
        self.check = Check::Watch(UserValue::new(Box::new(Watched::new(version))));
        self
    }
    /// Watches these files, and the files below these directories, without following links to directories there.
    /// There is a change if a file was added, removed or edited since the last reload (or since this was called).
    ///
    /// An edit changes a file's times, length or identity. While a file is younger than 2 seconds, the coarsest granule
    /// of such times, its contents count as well. So no edit is lost, unless the clock is set back or a mount's clock
    /// is behind. Each check looks each file up, and reads the files that were edited within the last seconds.
    pub fn watch_files<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let files = Files::new(paths.into_iter().map(Into::into).collect());
        self.check = Check::Watch(UserValue::new(Box::new(files)));
        self
    }
    /// Reloads after each body, without a check, instead of before it. Each execution waits for the others, first to
    /// prepare and then to unload. Inside an execution of another executor, it is refused before its body.
    pub fn always(mut self) -> Self {
        self.when = When::Always;
        self
    }
    /// With `false`, disables reloading: every execution is an ordinary one of the executor.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.is_enabled = enabled;
        self
    }
    /// Limits each wait of an execution of this reloader, as the [executor's](super::ExecutorBuilder::acquire_timeout).
    pub fn acquire_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = Some(timeout.into());
        self
    }

    /// Adds a step before unloading, after the others.
    pub fn before_unload(
        mut self,
        before: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.before.push(UserValue::new(Box::new(before)));
        self
    }
    /// Adds an unload step, after the others. No other owner runs meanwhile.
    pub fn unload(
        mut self,
        unload: impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.unload.push(UserValue::new(Box::new(unload)));
        self
    }
    /// Adds a step after unloading, before the others. It may [load](Unloading::load).
    pub fn after_unload(
        mut self,
        after: impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.after.push(UserValue::new(Box::new(after)));
        self
    }
    /// Adds a hook of executions that reload, inside the executor's hooks.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.steps.hooks.push(hook, false);
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
        self.steps.hooks.push((|| Ok(()), move |()| complete()), true);
        self
    }
    /// Adds a preparation, after the others: it loads. It is called after unloading, while no other owner runs, and by
    /// [`Reloader::prepare`] when the program starts.
    pub fn to_prepare(
        mut self,
        prepare: impl Fn(&mut Loading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.push(UserValue::new(Box::new(prepare)));
        self
    }
    /// Returns the reloader.
    ///
    /// # Errors
    /// [`Refused::NoInterlock`] or [`Refused::SecondReloader`], unless reloading is disabled.
    pub fn build(self) -> Result<Reloader, Refused> {
        let ReloaderBuilder { executor, check, steps, when, acquire_timeout, is_enabled } = self;
        let when = if is_enabled { when } else { When::Never };
        let right = match (when, executor.interlock()) {
            (When::Never, _) => None,
            (_, None) => return Err(Refused::NoInterlock),
            (_, Some(interlock)) => Some(Right::take(interlock).ok_or(Refused::SecondReloader)?),
        };
        let reloading = Reloading { when, changes: Changes::new(check), steps, right };
        let executor = executor.with_acquire_timeout(acquire_timeout);
        Ok(Reloader { executor, reloading: Arc::new(reloading) })
    }
}

opaque!(Reloader, ReloaderBuilder);
