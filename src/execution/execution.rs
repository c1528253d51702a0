//! An execution, from running its hooks to completing them.
//!
//! Hooks are completed once: the end of a `wrap`, `complete` and the drop all take them out of one list. Failures are
//! stored before each wait, because a future may be dropped there, and reported once, when the execution has left.
//!
//! Each procedure is one `async fn`. Its [`Caller`] says how it waits; a thread runs it by
//! [`now`](crate::kernel::section::now).

use super::ambient::Frame;
use super::error::{BoxError, ExecutionError, Failure, Panicked, Refused, Stage};
use super::executor::Executor;
use super::hooks::Completers;
use super::interlock::{Caller, Handle, Held, Interlock, Loaded, Purpose, Running, Step};
use super::named::opaque;
use super::reloading::{Reloading, When, reload_failed};
use super::scoped::scoped;
use crate::kernel::section::now;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::{catch, drop_contained, panic_message};
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::mem::take;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::thread;

/// A running execution: its hooks have run, and will be completed.
///
/// [`Executor::wrap`] gives it to the body, and [`Executor::run_async`] returns it. Dropping it completes the hooks,
/// too, at once and on the dropping thread; failures then go to the reporter only.
///
/// ```
/// # async fn example(executor: cabrank::Executor) -> Result<(), cabrank::execution::ExecutionError> {
/// let mut execution = executor.run_async().await?;
/// execution.within(|_| println!("the executor is active here"));
/// execution.complete_async().await // or drop(execution), on any thread
/// # }
/// ```
///
/// The lifetime keeps a body from swapping its execution for another. User code never has to write it.
#[must_use = "dropping an execution completes it"]
pub struct Execution<'scope> {
    /// Borrowed in a `wrap`, because a further reference would have to be counted.
    executor: Cow<'scope, Executor>,
    /// Distinguishes this execution from all others, for values that belong to it.
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

impl<'scope> Execution<'scope> {
    /// Returns an execution that has not begun.
    #[inline]
    fn new(executor: Cow<'scope, Executor>, reloading: Option<Arc<Reloading>>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Without hooks, no value belongs to the execution.
        let has_hooks = !executor.hooks().is_empty() || reloading.is_some();
        Execution {
            nested: executor.is_active(),
            id: if has_hooks { NEXT.fetch_add(1, Relaxed) } else { 0 },
            executor,
            reloading,
            reloads_last: false,
            reload_completers: Completers::default(),
            completers: Completers::default(),
            running: None,
            failures: Vec::new(),
        }
    }
    /// Returns an execution that has entered, reloaded if that was due, and run its hooks.
    pub(crate) async fn start(
        executor: Cow<'scope, Executor>,
        reloading: Option<Arc<Reloading>>,
        caller: Caller,
    ) -> Result<Self, ExecutionError> {
        let mut execution = Execution::new(executor, reloading);
        execution.begin(&caller).await?;
        Ok(execution)
    }
    /// Runs the body in an execution of its own. That is never moved, which would cost more than all the rest.
    pub(crate) async fn wrap<R, F>(
        executor: &'scope Executor,
        reloading: Option<Arc<Reloading>>,
        body: F,
        caller: Caller,
    ) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let mut execution = Execution::new(Cow::Borrowed(executor), reloading);
        execution.begin(&caller).await?;
        execution.carry(body, caller).await
    }

    /// Enters, runs the hooks, and reloads if that is due. After a failure, completes the hooks that have run.
    #[inline]
    async fn begin(&mut self, caller: &Caller) -> Result<(), ExecutionError> {
        if let Err(failure) = self.enter(caller).await {
            return self.abort(failure);
        }
        if self.nested {
            return Ok(());
        }
        if !self.executor.hooks().is_empty() {
            let run = self.within(|this| this.executor.hooks().run(&mut this.completers));
            if let Err(failure) = run {
                return self.abort(failure);
            }
        }
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        let begun = self.begin_reloading(&reloading, *caller).await;
        begun.or_else(|failure| self.abort(failure))
    }
    /// Ends an execution that cannot begin.
    #[cold]
    fn abort(&mut self, failure: Failure) -> Result<(), ExecutionError> {
        self.failures.push(failure);
        self.end();
        self.report()
    }
    #[inline]
    async fn enter(&mut self, caller: &Caller) -> Result<(), Failure> {
        let Some(interlock) = self.executor.interlock() else { return Ok(()) };
        let refused = |error| Failure::new(Stage::Enter, error);
        let (running, step) = interlock.begin(caller).map_err(refused)?;
        // A reload runs executions in its own steps.
        let may_run = running.is_view || self.reloading.is_some();
        let running = self.running.insert(running);
        if step == Step::Wait {
            running.wait(*caller).await.map_err(refused)?;
        }
        let refused = reload_failed(interlock).filter(|_| !may_run);
        refused.map_or(Ok(()), |refused| Err(Failure::new(Stage::Enter, refused)))
    }
    /// Reloads if that is due.
    async fn begin_reloading(
        &mut self,
        reloading: &Reloading,
        caller: Caller,
    ) -> Result<(), Failure> {
        let mut is_due = self.within(|_| reloading.is_due())?;
        while is_due {
            self.reload(reloading, false, caller).await?;
            // After an unload, others that wait to unload have their turn, and may have failed.
            is_due = reloading.is_retry_due()?;
        }
        match reloading.when {
            When::Always => self.prepare(reloading, caller).await,
            When::OnChange | When::Never => Ok(()),
        }
    }
    /// Begins an execution that reloads after its body: runs the reloader's hooks, and prepares.
    async fn prepare(&mut self, reloading: &Reloading, caller: Caller) -> Result<(), Failure> {
        if self.executor.interlock().is_some_and(Interlock::is_inside) {
            // The reload after the body would wait for the execution around this one.
            return Err(Failure::new(Stage::Unload, Refused::InsideExecution));
        }
        self.reloads_last = true;
        self.within(|this| reloading.steps.hooks.run(&mut this.reload_completers))?;
        let frame = self.frame();
        let running = self.running.as_mut().expect("a reloader's executor has an interlock");
        reloading.prepare_by(running, frame, caller).await
    }
}

/// Waits until no other owner runs, to unload.
async fn hold<'e>(
    executor: &Executor,
    running: &'e mut Option<Running<'_>>,
    caller: Caller,
) -> Result<Held<'e>, Failure> {
    let may = |running: &&mut Running<'_>| {
        // Its own frames are not on the stack here. A user may have swapped its share for one of another interlock.
        let interlock = executor.interlock().filter(|interlock| !interlock.is_inside());
        !running.is_view && interlock.is_some_and(|interlock| interlock.has(running))
    };
    let refused = || Failure::new(Stage::Unload, Refused::InsideExecution);
    let running = running.as_mut().filter(may).ok_or_else(refused)?;
    let held = running.hold(Purpose::Unload, caller).await;
    held.map_err(|error| Failure::new(Stage::Unload, error))
}

impl<'scope> Execution<'scope> {
    /// Returns the execution's share of the interlock: handles to loaded values borrow from it, and it can load.
    ///
    /// Returns `None` if the executor has no interlock.
    pub fn running(&mut self) -> Option<&mut Running<'scope>> {
        self.running.as_mut()
    }
    /// Returns a loaded value: [`Loaded::get`] with the execution's share.
    pub fn get<'r, T>(&'r self, loaded: &Loaded<T>) -> Option<Handle<'r, T>> {
        loaded.get(self.running.as_ref()?)
    }
    /// Notes the failure of a body that is no closure, so that the reporter gets it at the end. A nested execution
    /// leaves the failure to the outer one.
    pub fn fail(&mut self, cause: impl Into<BoxError>) {
        if !self.nested {
            self.failures.push(Failure::new(Stage::Body, cause));
        }
    }
    /// Whether this is inside another execution of the same executor. It has then run no hooks.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// Calls `body` while the executor is active on this thread, so that a [`wrap`](Executor::wrap) inside is nested.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut Execution<'_>) -> R) -> R {
        let _here = self.frame().enter();
        body(self)
    }
    /// Polls `body` while the executor is active on the polling thread.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body, also while the executor is active. The execution goes on.
    pub async fn within_async<R>(&mut self, body: impl AsyncFnOnce(&mut Execution<'_>) -> R) -> R {
        let frame = self.frame();
        scoped(|| frame.enter(), body(self)).await
    }

    /// Completes every hook in reverse order, even if one fails.
    ///
    /// # Errors
    /// The failures, which were reported before.
    #[track_caller]
    pub fn complete(self) -> Result<(), ExecutionError> {
        let caller = self.executor.thread();
        now(self.complete_by(caller))
    }
    /// Completes as [`complete`](Self::complete) does, in a future.
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
    async fn carry<R, F>(&mut self, body: F, caller: Caller) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        if self.nested {
            let result = self.within_async(body).await;
            return result.map_err(|cause| Failure::new(Stage::Body, cause).into());
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
        if self.reloads_last {
            self.reload_last(caller).await;
        }
        self.end();
        match (ended, self.report()) {
            (Ok(Some(value)), Ok(())) => Ok(value),
            (Ok(value), reported) => {
                drop_contained(value);
                Err(reported.expect_err("it has failed"))
            }
            (Err(panic), reported) => {
                drop_contained(reported);
                resume_unwind(panic)
            }
        }
    }
    /// Stores a failure of the body, because the future may be dropped before the failure is reported.
    fn note<R>(&mut self, ended: thread::Result<Result<R, BoxError>>) -> thread::Result<Option<R>> {
        let (cause, ended) = match ended {
            Ok(Ok(value)) => return Ok(Some(value)),
            Ok(Err(cause)) => (cause, Ok(None)),
            Err(panic) => (Panicked(panic_message(&*panic)).into(), Err(panic)),
        };
        self.failures.push(Failure::new(Stage::Body, cause));
        ended
    }

    /// Makes the reload after the body, if one is due.
    async fn reload_last(&mut self, caller: Caller) {
        let Some(reloading) = self.reloading.clone().filter(|_| self.reloads_last) else { return };
        // From here on, a dropped future leaves the reload to the next execution.
        self.note_last();
        let place = self.failures.len();
        if let Err(failure) = self.reload(&reloading, true, caller).await {
            self.failures.insert(place, failure);
        }
    }
    /// Reloads while no other owner runs. After the body, completes the reloader's hooks meanwhile.
    async fn reload(
        &mut self,
        reloading: &Reloading,
        is_last: bool,
        caller: Caller,
    ) -> Result<(), Failure> {
        let frame = self.frame();
        let mut held = hold(&self.executor, &mut self.running, caller).await?;
        let reloaded = {
            let _here = (frame.enter(), held.frame().enter());
            let reloaded = reloading.reload(&mut held.unloading(), &mut self.reload_completers);
            if is_last {
                self.reload_completers.complete(&mut self.failures);
            }
            // After a failure, the drop releases the interlock, and waits for no other owner's turn.
            reloaded?
        };
        held.finish(reloaded, caller).await.map_err(|error| Failure::new(Stage::Unload, error))
    }
    /// Notes the reload that is due after the body, for this or the next execution.
    fn note_last(&mut self) {
        if let Some(reloading) = self.reloading.as_ref().filter(|_| take(&mut self.reloads_last)) {
            reloading.changes.note();
        }
    }
    /// Completes the remaining hooks, and leaves. This needs no share, and waits only if a hook does.
    fn end(&mut self) {
        self.note_last();
        if !self.reload_completers.is_empty() || !self.completers.is_empty() {
            let _here = self.frame().enter();
            self.reload_completers.complete(&mut self.failures);
            self.completers.complete(&mut self.failures);
        }
        self.running = None;
    }
    /// Returns the failures, after reporting them.
    fn report(&mut self) -> Result<(), ExecutionError> {
        let failures = take(&mut self.failures);
        if failures.is_empty() { Ok(()) } else { Err(self.executor.report(failures, false)) }
    }

    /// Returns the frame that a thread enters to be in this execution.
    #[inline]
    pub(crate) fn frame(&self) -> Frame {
        let executor = (self.executor.id(), self.reloading.is_some(), self.id);
        Frame {
            share: self.running.as_ref().and_then(|running| running.frame().share),
            executor: (!self.nested).then_some(executor),
        }
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        self.end();
        if !self.failures.is_empty() {
            drop_contained(self.executor.report(take(&mut self.failures), true));
        }
    }
}

opaque!(Execution<'_>);
