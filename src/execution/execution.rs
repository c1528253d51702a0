//! An execution, from running its hooks to completing them.
//!
//! Hooks are completed once: the end of a `wrap`, `complete` and the drop all take them out of one list. Failures are
//! stored before each wait, because a future may be dropped there, and reported once, when the execution has left.
//!
//! Each procedure is one `async fn`. Its [`Caller`] says how it waits; a thread runs it by [`now`](crate::section::now).

use super::ambient::{Frame, Within};
use super::error::{BoxError, ExecutionError, Failure, Panicked, Refused, Stage};
use super::executor::Executor;
use super::hooks::Completers;
use super::interlock::{Caller, Held, Interlock, Purpose, Running};
use super::reloading::{Reloading, When, reload_failed};
use super::scoped::scoped;
use crate::section::now;
use crate::sync::has_failed;
use crate::user_code::{catch, drop_contained, panic_message};
use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

/// A running execution: its hooks have run, and will be completed.
///
/// [`Executor::wrap`] gives it to the body, and [`Executor::run_async`] returns it. Dropping it completes the hooks,
/// too, at once and on the dropping thread; failures then go to the reporter only.
///
/// ```
/// # use cabrank::execution::{ExecutionError, Executor};
/// # async fn example(executor: Executor) -> Result<(), ExecutionError> {
/// let mut execution = executor.run_async().await?;
/// execution.within(|_| println!("the executor is active here"));
/// execution.complete_async().await // or drop(execution), on any thread
/// # }
/// ```
///
/// The lifetime keeps a body from swapping its execution for another. User code never has to write it.
///
/// ```compile_fail,E0521
/// use cabrank::execution::Executor;
///
/// async fn swap(executor: Executor) {
///     let other = executor.run_async().await.unwrap();
///     let _ = executor.wrap(|execution| Ok(std::mem::replace(execution, other)));
/// }
/// ```
#[must_use = "dropping an execution completes it"]
pub struct Execution<'scope> {
    executor: Executor,
    /// Tells this execution from all others: for values that belong to it.
    id: u64,
    /// It is inside another execution of the same executor, and runs no hooks.
    nested: bool,
    /// Present if a reloader began it.
    reloading: Option<Arc<Reloading>>,
    /// Whether it reloads before its completion, and has not noted that yet.
    reloads_last: bool,
    reload_completers: Completers,
    completers: Completers,
    /// Its share: entered first and left last.
    running: Option<Running<'scope>>,
    /// Not reported yet.
    failures: Vec<Failure>,
}

/// Whether an execution of a reloader reloads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    IfDue,
    /// A reload was requested.
    Anyway,
}

/// How a body has ended.
enum Ended<R> {
    Value(R),
    /// The failure is stored.
    Failed,
    Panicked(Box<dyn Any + Send>),
}

impl Execution<'static> {
    /// Returns an execution that has entered, reloaded if that was due, and run its hooks.
    pub(crate) async fn start(
        executor: Executor,
        reloading: Option<(Arc<Reloading>, Reload)>,
        caller: Caller,
    ) -> Result<Self, ExecutionError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (reloading, reload) = reloading.unzip();
        let mut execution = Execution {
            nested: executor.is_active(),
            executor,
            id: NEXT.fetch_add(1, Relaxed),
            reloading,
            reloads_last: false,
            reload_completers: Completers::default(),
            completers: Completers::default(),
            running: None,
            failures: Vec::new(),
        };
        if let Err(failure) = execution.begin(reload, caller).await {
            execution.failures.push(failure);
            execution.end();
            return Err(execution.report().expect_err("it has failed"));
        }
        Ok(execution)
    }
    async fn begin(&mut self, reload: Option<Reload>, caller: Caller) -> Result<(), Failure> {
        if let Some(interlock) = self.executor.interlock() {
            let running = interlock.enter_by(caller).await;
            let running = running.map_err(|error| Failure::new(Stage::Enter, error))?;
            // A reload runs executions in its own steps.
            let may_run = running.is_view() || self.reloading.is_some();
            self.running = Some(running);
            if let Some(refused) = reload_failed(interlock).filter(|_| !may_run) {
                return Err(Failure::new(Stage::Enter, refused));
            }
        }
        if self.nested {
            return Ok(());
        }
        self.inside(|this| this.executor.hooks().run(&mut this.completers))?;
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        let mut is_due = self.inside(|_| {
            if reload == Some(Reload::Anyway) && reloading.when == When::OnChange {
                reloading.changes.note();
            }
            reloading.is_due()
        })?;
        while is_due {
            self.reload_first(&reloading, caller).await?;
            // After an unload, others that wait to unload have their turn, and may have failed.
            is_due = reloading.is_retry_due()?;
        }
        match reloading.when {
            When::Always => self.prepare(&reloading, caller).await,
            When::OnChange | When::Never => Ok(()),
        }
    }
    async fn reload_first(&mut self, reloading: &Reloading, caller: Caller) -> Result<(), Failure> {
        let scope = self.scope();
        let mut held = hold(&self.executor, &mut self.running, caller).await?;
        let reloaded = {
            let _here = (scope.enter(), held.frame().enter());
            // After a failure, the drop releases the interlock, and waits for no other owner's turn.
            reloading.reload(&mut held.unloading(), &mut self.reload_completers)?
        };
        held.finish(reloaded, caller).await.map_err(|error| Failure::new(Stage::Unload, error))
    }
    /// Begins an execution that reloads after its body: runs the reloader's hooks, and prepares.
    async fn prepare(&mut self, reloading: &Reloading, caller: Caller) -> Result<(), Failure> {
        self.reloads_last = true;
        self.inside(|this| reloading.steps.hooks.run(&mut this.reload_completers))?;
        let scope = self.scope();
        match &mut self.running {
            Some(running) => reloading.prepare_by(running, scope, caller).await,
            None => Ok(()),
        }
    }
}

/// Waits until no other owner runs, to unload.
async fn hold<'e>(
    executor: &Executor,
    running: &'e mut Option<Running<'_>>,
    caller: Caller,
) -> Result<Held<'e>, Failure> {
    // Its own frames are not on the stack here.
    let inside = executor.interlock().is_none_or(Interlock::is_inside);
    match running.as_mut().filter(|running| !inside && !running.is_view()) {
        Some(running) => {
            let held = running.hold(Purpose::Unload, caller).await;
            held.map_err(|error| Failure::new(Stage::Unload, error))
        }
        None => Err(Failure::new(Stage::Unload, Refused::InsideExecution)),
    }
}

/// The frames of an execution on a thread's stack.
#[derive(Clone, Copy)]
pub(crate) struct Scope {
    /// Absent inside another execution of the same executor, which has entered its own.
    executor: Option<Frame>,
    share: Option<Frame>,
}

impl Scope {
    /// Returns the scope of a share without hooks.
    pub(crate) fn of(running: &Running<'_>) -> Self {
        Scope { executor: None, share: Some(running.frame()) }
    }
    pub(crate) fn enter(self) -> (Option<Within>, Option<Within>) {
        (self.executor.map(Frame::enter), self.share.map(Frame::enter))
    }
}

impl<'scope> Execution<'scope> {
    /// Returns the execution's share of the interlock: handles to loaded values borrow from it, and it can load.
    ///
    /// Returns `None` if the executor has no interlock.
    pub fn running(&mut self) -> Option<&mut Running<'scope>> {
        self.running.as_mut()
    }
    /// Whether this is inside another execution of the same executor. It has then run no hooks.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// Calls `body` while the executor is active on this thread, so that a [`wrap`](Executor::wrap) inside is nested.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut Execution<'_>) -> R) -> R {
        let _here = self.scope().enter();
        body(self)
    }
    /// Polls `body` while the executor is active on the polling thread.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, also while the executor is active. The execution goes on.
    pub async fn within_async<R>(&mut self, body: impl AsyncFnOnce(&mut Execution<'_>) -> R) -> R {
        let scope = self.scope();
        scoped(|| scope.enter(), body(self)).await
    }

    /// Completes every hook in reverse order, even if one fails.
    ///
    /// # Errors
    /// The first failure, with the others attached. It was reported before.
    #[track_caller]
    pub fn complete(self) -> Result<(), ExecutionError> {
        let caller = self.executor.thread();
        now(self.complete_by(caller))
    }
    /// [`complete`](Self::complete) for a task: waiting to unload does not block the thread.
    ///
    /// # Errors
    /// Those of `complete`.
    ///
    /// # Cancel safety
    /// Dropping the future drops the execution. Its hooks are still completed, and failures go to the reporter only.
    /// If it had to unload and has not yet, the reloader's next execution does so before its body.
    #[track_caller]
    pub fn complete_async(self) -> impl Future<Output = Result<(), ExecutionError>> + use<'scope> {
        let caller = self.executor.task();
        self.complete_by(caller)
    }
    pub(crate) async fn complete_by(mut self, caller: Caller) -> Result<(), ExecutionError> {
        self.reload_last(caller).await;
        self.end();
        self.report()
    }

    /// Runs the body, and ends the execution.
    pub(crate) async fn carry<R, F>(mut self, body: F, caller: Caller) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        if self.nested {
            let result = self.within_async(body).await;
            return result.map_err(|cause| ExecutionError::only(Failure::new(Stage::Body, cause)));
        }
        let result = {
            let mut body = pin!(self.within_async(body));
            poll_fn(|cx| match catch(|| body.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                Err(panic) => Poll::Ready(Err(panic)),
            })
            .await
        };
        let ended = self.note(result);
        self.reload_last(caller).await;
        self.end();
        let reported = self.report();
        drop(self);
        match (ended, reported) {
            (Ended::Value(value), Ok(())) => Ok(value),
            (Ended::Value(value), Err(error)) => {
                drop_contained(value);
                Err(error)
            }
            (Ended::Failed, reported) => Err(reported.expect_err("it has failed")),
            (Ended::Panicked(panic), reported) => {
                drop_contained(reported);
                resume_unwind(panic)
            }
        }
    }
    /// Stores a failure of the body, because the future may be dropped before the failure is reported.
    fn note<R>(&mut self, result: std::thread::Result<Result<R, BoxError>>) -> Ended<R> {
        let (cause, ended) = match result {
            Ok(Ok(value)) => return Ended::Value(value),
            Ok(Err(cause)) => (cause, Ended::Failed),
            Err(panic) => (Panicked::new(panic_message(&*panic)).into(), Ended::Panicked(panic)),
        };
        self.failures.push(Failure::new(Stage::Body, cause));
        ended
    }

    /// Makes the reload after the body, if one is due, and completes the reloader's hooks meanwhile.
    async fn reload_last(&mut self, caller: Caller) {
        let Some(reloading) = self.reloading.clone().filter(|_| self.reloads_last) else { return };
        // From here on, a dropped future leaves the reload to the next execution.
        self.note_last();
        let scope = self.scope();
        let ended = match hold(&self.executor, &mut self.running, caller).await {
            Err(failure) => Err(failure),
            Ok(mut held) => {
                let reloaded = {
                    let _here = (scope.enter(), held.frame().enter());
                    let completers = &mut self.reload_completers;
                    let reloaded = reloading.reload(&mut held.unloading(), completers);
                    let reloaded = reloaded.map_err(|failure| self.failures.push(failure));
                    completers.complete(&mut self.failures);
                    reloaded.unwrap_or(true)
                };
                let finished = held.finish(reloaded, caller).await;
                finished.map_err(|error| Failure::new(Stage::Unload, error))
            }
        };
        self.failures.extend(ended.err());
    }
    /// Notes the reload that is due after the body, for this or the next execution.
    fn note_last(&mut self) {
        if let Some(reloading) = self.reloading.as_ref().filter(|_| take(&mut self.reloads_last)) {
            reloading.changes.note();
        }
    }
    /// Completes the remaining hooks, and leaves. This never waits, and needs no share.
    fn end(&mut self) {
        self.note_last();
        if !self.reload_completers.is_empty() || !self.completers.is_empty() {
            let _here = self.scope().enter();
            self.reload_completers.complete(&mut self.failures);
            self.completers.complete(&mut self.failures);
        }
        self.running = None;
    }
    /// Returns the failures, after reporting them.
    fn report(&mut self) -> Result<(), ExecutionError> {
        match ExecutionError::of(take(&mut self.failures)) {
            None => Ok(()),
            Some(error) => Err(self.executor.report(error, false)),
        }
    }

    /// Calls `f` inside the execution.
    fn inside<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let _here = self.scope().enter();
        f(self)
    }
    /// Returns the frames that a thread enters to be in this execution.
    pub(crate) fn scope(&self) -> Scope {
        let (id, reloads) = (self.executor.id(), self.reloading.is_some());
        let executor = Frame::Executor { id, reloads, execution: self.id };
        Scope {
            executor: Some(executor).filter(|_| !self.nested),
            share: self.running.as_ref().map(Running::frame),
        }
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        self.end();
        if let Some(error) = ExecutionError::of(take(&mut self.failures)) {
            drop_contained(self.executor.report(error, true));
        }
    }
}

impl fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("executor", &self.executor).finish_non_exhaustive()
    }
}
