//! The reloader: an executor whose executions first reload what has changed.

use super::ambient::Ambient;
use super::changes::Check;
use super::error::{BoxError, ExecutionError, Failure, ReloadRefused, Stage};
use super::executor::Executor;
use super::guard::{Entry, Execution, Reload};
use super::reloader_builder::ReloaderBuilder;
use super::reloading::{Reloading, Steps, When};
use std::fmt;
use std::sync::Arc;

/// Runs application code on a freshly loaded world. It is for the outermost caller (a server, a worker). Nested calls
/// use the [`Executor`], or only call their body.
///
/// Before the body, it checks for changes. If there are any, it waits until no execution runs (the interlock's unload
/// mode), unloads, and lets the others go on. Alternatively it unloads after each body, changed or not:
/// [`ReloaderBuilder::always`].
///
/// ```
/// use cabrank::execution::{Executor, Interlock, Reloader};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let version = Arc::new(AtomicU32::new(1)); // of a file, say
/// let watched = version.clone();
/// let executor = Executor::builder().interlock(Interlock::new()).build();
/// let reloader = Reloader::builder(executor)
///     .watch(move || watched.load(Ordering::Relaxed))
///     .unload(|_| Ok(println!("unloaded")))
///     .build()?;
///
/// reloader.wrap(|_| Ok(println!("the first version")))?;
/// version.store(2, Ordering::Relaxed);
/// reloader.wrap(|_| Ok(println!("the second")))?; // prints "unloaded" first
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # A reload that fails
/// Its execution fails without running its body, and the failure is reported. Until a reload has succeeded, no
/// executor of the interlock begins an execution ([`HalfReloaded`](super::HalfReloaded)), and each execution of the
/// reloader first tries again. These still run: the reload's own code, hooks that are still to be completed, and the
/// rest of a body whose [`Execution::reset`] has failed (see [Limits](super#limits)).
///
/// An interlock has one reloader at a time. Another may be built once all clones of the first are dropped and its
/// executions have ended. It inherits a half reloaded world and changes that were found but not reloaded: it then
/// reloads first, by its own steps.
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
            check: Check::OnRequest,
            steps: Steps::default(),
            when: When::OnChange,
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
    /// Inside an execution of this reloader, on the same thread, it only calls its body.
    ///
    /// # Errors
    /// - Those of [`Executor::wrap`].
    /// - Those of the reload; the body was then not run.
    /// - [`ReloadRefused`] inside another execution of the executor, if a reload is due.
    ///
    /// # Panics
    /// If the body does: see [`Executor::wrap`].
    pub fn wrap<R>(
        &self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        match self.nested()? {
            true => self.executor.nest(body),
            false => self.start(Entry::Scope, Reload::IfDue)?.carry(body),
        }
    }

    /// Reloads if that is due, runs the hooks, and returns an execution that completes them.
    ///
    /// An execution that is dropped instead of completed does not wait. If it must unload at its end, the next
    /// execution does so before its body.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) before the body.
    pub fn run(&self) -> Result<Execution<'static>, ExecutionError> {
        match self.nested()? {
            true => Ok(Execution::nested(self.executor.clone())),
            false => self.start(Entry::Guard, Reload::IfDue),
        }
    }

    /// [`run`](Self::run) for a task: waiting, to enter and to unload, does not block the thread.
    ///
    /// # Errors
    /// Those of `run`.
    ///
    /// # Cancel safety
    /// Dropping the future completes the hooks that have run, and reports the failures so far. The next execution
    /// makes a missed reload.
    pub async fn run_async(&self) -> Result<Execution<'static>, ExecutionError> {
        match self.nested()? {
            true => Ok(Execution::nested(self.executor.clone())),
            false => self.start_async(Entry::Guard).await,
        }
    }

    /// [`wrap`](Self::wrap) for a future.
    ///
    /// The polling thread calls the hooks and the reload's steps; waiting does not block it.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap).
    ///
    /// # Panics
    /// As [`wrap`](Self::wrap).
    ///
    /// # Cancel safety
    /// As [`Executor::wrap_async`]. Failures are reported. If it had to unload after the body and has not yet, the
    /// next execution unloads.
    pub async fn wrap_async<R, F>(&self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        match self.nested()? {
            true => self.executor.nest_async(body).await,
            false => self.start_async(Entry::Scope).await?.carry_async(body).await,
        }
    }

    /// Reloads in an execution of its own, whether there is a change or not, and prepares once more.
    ///
    /// # Errors
    /// - Those of [`wrap`](Self::wrap) and [`prepare`](Self::prepare).
    /// - [`ReloadRefused`] inside an execution, and if reloading is disabled.
    pub fn reload_now(&self) -> Result<(), ExecutionError> {
        if self.reloading.when == When::Never {
            return Err(refused(ReloadRefused::Disabled));
        }
        if self.executor.is_active() {
            return Err(refused(ReloadRefused::InsideExecution));
        }
        self.start(Entry::Scope, Reload::Anyway)?.carry(|_| Ok(()))?;
        self.prepare()
    }

    /// Prepares without reloading: once, when the program starts. No owner unloads meanwhile.
    ///
    /// # Errors
    /// - The first failure; later preparations were not called.
    /// - [`HalfReloaded`](super::HalfReloaded); no preparation was called.
    ///
    /// The error was reported before.
    pub fn prepare(&self) -> Result<(), ExecutionError> {
        self.executor.bare(|preparing| self.reloading.prepare(preparing))
    }

    fn start(&self, entry: Entry, reload: Reload) -> Result<Execution<'static>, ExecutionError> {
        Execution::start(self.executor.clone(), entry, Some((self.reloading.clone(), reload)))
    }
    async fn start_async(&self, entry: Entry) -> Result<Execution<'static>, ExecutionError> {
        let reloading = Some(self.reloading.clone());
        Execution::start_async(self.executor.clone(), entry, reloading).await
    }

    /// Returns whether only the body is to be called, because the executor is active.
    ///
    /// # Errors
    /// A reload is due, and would wait for the execution that asks for it.
    fn nested(&self) -> Result<bool, ExecutionError> {
        if !self.executor.is_active() {
            return Ok(false);
        }
        if Ambient::is_reloading(self.executor.id()) {
            return Ok(true);
        }
        match self.reloading.is_due() {
            Ok(false) => Ok(true),
            Ok(true) => Err(refused(ReloadRefused::InsideExecution)),
            Err(failure) => Err(ExecutionError::new(failure, Vec::new())),
        }
    }
}

fn refused(why: ReloadRefused) -> ExecutionError {
    ExecutionError::new(Failure::new(Stage::Unload, why), Vec::new())
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("when", &self.reloading.when).finish_non_exhaustive()
    }
}
