//! The reloader: an executor whose executions find everything reloaded that has changed.

use super::ambient::Ambient;
use super::changes::Check;
use super::error::{BoxError, ExecutionError, Failure, ReloadRefused, Stage};
use super::executor::Executor;
use super::guard::{Entry, Execution, Reload};
use super::reloader_builder::ReloaderBuilder;
use super::reloading::{Reloading, Steps, When};
use std::fmt;
use std::sync::Arc;

/// Runs application code on a freshly loaded world. For what calls it again and again (a server, a
/// worker); what is called from within uses the [`Executor`], or does nothing but call its body.
///
/// Before the body, it looks whether something has changed. If so, it waits until nobody runs (the
/// interlock's unload mode), unloads, and lets the others go on. Or it unloads after each body,
/// changed or not: [`ReloaderBuilder::always`].
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
/// Its execution fails without running its body, and the reporter is told. Until a reload has
/// succeeded, no executor of the interlock begins anything ([`HalfReloaded`]), and each execution of the
/// reloader tries again first. What a reload itself calls runs all the same; so do the hooks that are still to be
/// completed, and the rest of a body whose [`Execution::reset`] has failed (see [Limits](super#limits)).
///
/// An interlock has one reloader at a time: there may be another when all clones of the first are
/// dropped, and its executions are over. What that one has left half reloaded stays so, and what it has
/// found changed and not reloaded stays changed: the next one reloads first, by its own steps.
#[derive(Clone)]
pub struct Reloader {
    executor: Executor,
    reloading: Arc<Reloading>,
}

impl Reloader {
    /// A reloader over this executor, to be told what to reload and when.
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

    /// The executor inside: for what must not reload.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Reloads if that is due, and runs the body as [`Executor::wrap`] does.
    ///
    /// Inside an execution of this reloader, on the same thread, it only calls its body.
    ///
    /// # Errors
    /// Those of [`Executor::wrap`], and those of the reload: then the body was not run.
    /// [`ReloadRefused`] inside another execution of the executor, if a reload is due.
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

    /// Reloads if that is due, and runs the hooks; the execution that is returned completes them.
    ///
    /// One that is dropped instead of completed waits for nobody: if it is to unload at its end,
    /// the next execution does so before its body.
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
    /// Dropped at an await, the hooks that have run are completed, and what has failed is told to the reporter; what
    /// is to be reloaded, the next execution reloads.
    pub async fn run_async(&self) -> Result<Execution<'static>, ExecutionError> {
        match self.nested()? {
            true => Ok(Execution::nested(self.executor.clone())),
            false => self.start_async(Entry::Guard).await,
        }
    }

    /// [`wrap`](Self::wrap) for a future.
    ///
    /// The hooks, and what unloads, are called by the thread that polls; waiting does not block it.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap).
    ///
    /// # Panics
    /// As [`wrap`](Self::wrap).
    ///
    /// # Cancel safety
    /// As [`Executor::wrap_async`], and what has failed is told to the reporter. What was to be unloaded after the
    /// body, and was not, is unloaded by the next execution.
    pub async fn wrap_async<R, F>(&self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        match self.nested()? {
            true => self.executor.nest_async(body).await,
            false => self.start_async(Entry::Scope).await?.carry_async(body).await,
        }
    }

    /// Reloads, whether something has changed or not, in an execution of its own, and prepares once
    /// more.
    ///
    /// # Errors
    /// Those of [`wrap`](Self::wrap) and [`prepare`](Self::prepare). [`ReloadRefused`] inside an
    /// execution, and if reloading is disabled.
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

    /// Prepares without reloading: once, when the program starts. Nobody unloads meanwhile.
    ///
    /// # Errors
    /// The first that failed; the rest were not called. [`HalfReloaded`], and nothing was called. The reporter
    /// has been told.
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

    /// Whether there is nothing to be done but to call the body; an error if a reload is due and
    /// would wait for who asks for it.
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
