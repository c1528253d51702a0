//! An execution from its hooks' run to their completion.
//!
//! It is completed once, because whoever completes it takes what there is to complete: `complete`,
//! `reset`, the end of a `wrap` and the drop all go through `end`, which leaves nothing behind.
//! What fails is kept with it, and told once, when it has left. No thread is bound to it: who has
//! the value ends the execution, wherever that is.

mod late;
mod reload;

use super::ambient::Scope;
use super::child::Child;
use super::error::{BoxError, ExecutionError, Failure, Panicked, Stage};
use super::executor::Executor;
use super::hooks::Completers;
use super::interlock::{self, Interlock, Running};
use super::preparing::{Loads, Preparing};
use super::reloading::Reloading;
use super::scoped::scoped;
use crate::foreign::{caught, panic_message, release};
use crate::sync::has_failed;
use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::mem::take;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A running execution: its hooks have run, and will be completed.
///
/// Given to the body by [`Executor::wrap`], or returned by [`Executor::run`]. Dropping it completes
/// the hooks, too; what fails then is told to the reporter only. Its hooks are completed under its share: if
/// that was given up for a load that was then dropped, and somebody else holds, a drop leaves it to them, and
/// everything else waits.
///
/// ```
/// use cabrank::execution::Executor;
///
/// let executor = Executor::builder().to_complete(|| Ok(println!("bye"))).build();
/// let mut execution = executor.run()?;
/// execution.within(|_| println!("hello"));
/// execution.complete()?; // or drop(execution), on any thread
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The lifetime keeps the execution of a body, and its share, from being swapped for another; to write it is
/// never needed.
///
/// ```compile_fail,E0521
/// use cabrank::execution::{Executor, Interlock};
///
/// let executor = Executor::builder().interlock(Interlock::new()).build();
/// executor.wrap(|execution| Ok(std::mem::replace(execution, executor.run()?)));
/// ```
/// ```compile_fail,E0521
/// use cabrank::execution::{Executor, Interlock};
///
/// let (executor, other) = (Executor::builder().interlock(Interlock::new()).build(), Interlock::new());
/// executor.wrap(|execution| Ok(drop(std::mem::replace(execution.running().unwrap(), other.enter()))));
/// ```
#[must_use = "dropping an execution completes it"]
pub struct Execution<'scope> {
    executor: Executor,
    /// Inside another of the same executor: there is nothing to do.
    nested: bool,
    /// Of its reloader, if that has begun it.
    reloading: Option<Arc<Reloading>>,
    /// To be reloaded before it is completed.
    reloads_last: bool,
    reload_completers: Completers,
    completers: Completers,
    /// Its share: entered first and left last.
    running: Option<Running<'scope>>,
    /// What has failed, and was not told yet.
    failures: Vec<Failure>,
}

/// How an execution comes to its share.
pub(crate) enum Entry {
    /// By itself. What runs inside another execution on the same thread, of another executor, has
    /// that one's share.
    Scope,
    /// The same, with a share of its own: it may outlive the other.
    Guard,
    /// With a child's token, if there is an interlock.
    Child(Option<interlock::Child>),
}

/// Why a body is not polled any more.
const TAKEN_OUT: &str = "the future was taken out of the execution that it has its share of";

/// How a body has ended.
enum Ended<R> {
    Value(R),
    /// The failure is noted.
    Failed,
    Panicked(Box<dyn Any + Send>),
}

impl Execution<'static> {
    fn idle(executor: Executor, reloading: Option<Arc<Reloading>>) -> Self {
        Execution {
            executor,
            nested: false,
            reloading,
            reloads_last: false,
            reload_completers: Completers::default(),
            completers: Completers::default(),
            running: None,
            failures: Vec::new(),
        }
    }
    /// One inside another: nothing is ever run.
    pub(crate) fn nested(executor: Executor) -> Self {
        let mut execution = Execution::idle(executor, None);
        execution.nested = true;
        execution
    }

    /// One that has entered, reloaded if that is due, and run its hooks.
    pub(crate) fn start(
        executor: Executor,
        entry: Entry,
        reloading: Option<Arc<Reloading>>,
    ) -> Result<Self, ExecutionError> {
        let mut execution = Execution::idle(executor, reloading);
        if let Some(interlock) = execution.executor.interlock() {
            execution.running = match entry {
                Entry::Scope if interlock.is_shared_here() => None,
                Entry::Child(Some(token)) => Some(token.enter()),
                Entry::Scope | Entry::Guard | Entry::Child(None) => Some(interlock.enter()),
            };
        }
        let begun = execution.begin().and_then(|due| {
            if due {
                execution.reload_first()?;
            }
            execution.begin_reloaded()
        });
        execution.begun(begun)
    }
    /// The same without blocking the thread.
    pub(crate) async fn start_async(
        executor: Executor,
        entry: Entry,
        reloading: Option<Arc<Reloading>>,
    ) -> Result<Self, ExecutionError> {
        let mut execution = Execution::idle(executor, reloading);
        if let Some(interlock) = execution.executor.interlock() {
            execution.running = match entry {
                Entry::Scope if interlock.is_shared_here() => None,
                Entry::Child(Some(token)) => Some(token.enter_async().await),
                Entry::Scope | Entry::Guard | Entry::Child(None) => {
                    Some(interlock.enter_async().await)
                }
            };
        }
        let begun = match execution.begin() {
            Ok(true) => execution.reload_first_async().await,
            Ok(false) => Ok(()),
            Err(failure) => Err(failure),
        };
        let begun = match begun {
            Ok(()) => execution.begin_reloaded_async().await,
            failed => failed,
        };
        execution.begun(begun)
    }
}

impl<'scope> Execution<'scope> {
    /// Runs the executor's hooks. True if something is to be reloaded.
    fn begin(&mut self) -> Result<bool, Failure> {
        let half_reloaded = self.executor.interlock().is_some_and(Interlock::is_half_reloaded_here);
        if self.reloading.is_none() && half_reloaded {
            return Err(Failure::new(Stage::Enter, super::HalfReloaded));
        }
        self.run_hooks()?;
        let Some(reloading) = &self.reloading else { return Ok(false) };
        let _here = self.scope().enter();
        Ok(reloading.is_due_first()? || half_reloaded)
    }
    fn run_hooks(&mut self) -> Result<(), Failure> {
        if self.executor.inner.hooks.is_empty() {
            return Ok(());
        }
        let _here = self.scope().enter();
        self.executor.inner.hooks.run(&mut self.completers)
    }
    fn begin_reloaded(&mut self) -> Result<(), Failure> {
        let Some(reloading) = self.reloading.clone().filter(|r| r.is_last()) else { return Ok(()) };
        let _here = self.scope().enter();
        self.reloads_last = true;
        let share = self.running.as_mut().map(|running| running as &mut dyn Loads);
        reloading.begin_shared(&mut Preparing::new(share), &mut self.reload_completers)
    }
    /// One that could not begin waits for nobody.
    fn begun(mut self, begun: Result<(), Failure>) -> Result<Self, ExecutionError> {
        match begun {
            Ok(()) => Ok(self),
            Err(failure) => {
                self.failures.push(failure);
                self.end();
                Err(self.told().expect_err("it has failed"))
            }
        }
    }

    /// What a thread has to know that is in this execution.
    fn scope(&self) -> Scope {
        Scope {
            executor: self.executor.id(),
            reloading: self.reloading.is_some(),
            share: self.running.as_ref().map(Running::scope),
        }
    }

    /// Its share of the interlock: handles to what is loaded borrow from it, and it loads.
    ///
    /// None if the executor has no interlock, or this is inside another execution on the same
    /// thread: the share is that one's.
    pub fn running(&mut self) -> Option<&mut Running<'scope>> {
        self.running.as_mut()
    }

    /// A token with which a thread or task begins an execution that this one may wait for: it is
    /// let in although a reload waits, because that waits for this one.
    ///
    /// Without an interlock, the child is an execution like any other.
    ///
    /// ```
    /// use cabrank::execution::{Executor, Interlock};
    /// use std::thread;
    ///
    /// let executor = Executor::builder().interlock(Interlock::new()).build();
    /// let length = executor.wrap(|execution| {
    ///     let child = execution.child();
    ///     let thread = thread::spawn(move || child.wrap(|_| Ok("some work".len())));
    ///     let running = execution.running().expect("there is an interlock");
    ///     Ok(running.join(thread)?.expect("no panic")?) // others may load meanwhile
    /// })?;
    /// assert_eq!(length, 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn child(&self) -> Child {
        let token = match (&self.running, self.executor.interlock()) {
            (Some(running), _) => Some(running.child()),
            // Of the execution around this one.
            (None, Some(interlock)) if interlock.is_shared_here() => {
                Some(interlock.run(|running| running.child()))
            }
            (None, _) => None,
        };
        Child::new(self.executor.clone(), token)
    }

    /// Calls something while the executor counts as running on this thread, so that a
    /// [`wrap`](Executor::wrap) inside is a nested one.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut Execution<'_>) -> R) -> R {
        let _here = self.scope().enter();
        body(self)
    }

    /// Runs the body, and ends.
    pub(crate) fn carry<R>(
        mut self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        let result = caught(|| self.within(body));
        let ended = self.note(result);
        self.await_share();
        self.reload_last();
        self.end();
        self.settle(ended)
    }

    /// Runs the body, which is in this execution whenever it is polled, and ends.
    pub(crate) async fn carry_async<R, F>(mut self, body: F) -> Result<R, ExecutionError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let result = {
            let scope = self.scope();
            // If it has that of the execution around it, it is nothing outside of that.
            let borrowed = self.executor.interlock().filter(|_| self.running.is_none()).cloned();
            let has_share = || borrowed.as_ref().is_none_or(Interlock::is_shared_here);
            let mut body = pin!(scoped(|| scope.clone().enter(), async { body(&mut self).await }));
            poll_fn(|cx| {
                if !has_share() {
                    return Poll::Ready(Ok(Err(TAKEN_OUT.into())));
                }
                match caught(|| body.as_mut().poll(cx)) {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                    Err(panic) => Poll::Ready(Err(panic)),
                }
            })
            .await
        };
        let ended = self.note(result);
        if let Some(running) = &self.running {
            running.await_share_async().await;
        }
        self.reload_last_async().await;
        self.end();
        self.settle(ended)
    }

    /// Completes the hooks, and runs them again: a new execution in the place of this one. A nested
    /// one does neither.
    ///
    /// The share is kept, so nothing is reloaded in between (unless this is an execution of a
    /// reloader that always reloads). Of a reloader's hooks, nothing is run again.
    ///
    /// # Errors
    /// The new execution's failure: then there is none, the hooks that had run were completed, and
    /// nothing is left to be done. Otherwise a [`Stage::Complete`] of the former one, and the new
    /// one runs. The reporter has been told.
    pub fn reset(&mut self) -> Result<(), ExecutionError> {
        if self.nested {
            return Ok(());
        }
        self.await_share();
        self.reload_last();
        self.complete_all();
        if let Err(failure) = self.run_hooks() {
            self.failures.insert(0, failure);
            self.complete_all();
        }
        self.told()
    }

    /// Completes the hooks, the last that ran first: every one, whatever fails.
    ///
    /// # Errors
    /// The first failure, with the others attached. The reporter has been told.
    pub fn complete(mut self) -> Result<(), ExecutionError> {
        self.await_share();
        self.reload_last();
        self.end();
        self.told()
    }

    /// What is done under its share waits for it, if the body has dropped what it had given it up for.
    fn await_share(&self) {
        if let Some(running) = &self.running {
            running.await_share();
        }
    }
    /// Completes whatever there is to complete, and leaves. Waits for nobody, and has its share: a reload that is due
    /// last, and was not made, is owed to the next execution.
    fn end(&mut self) {
        self.last();
        self.complete_all();
        self.running = None;
    }
    fn complete_all(&mut self) {
        if self.reload_completers.is_empty() && self.completers.is_empty() {
            return;
        }
        let _here = self.scope().enter();
        self.reload_completers.complete(&mut self.failures);
        self.completers.complete(&mut self.failures);
    }

    /// All of it, out of its scope: nothing is left to be done.
    fn take(&mut self) -> Execution<'static> {
        Execution {
            executor: self.executor.clone(),
            nested: self.nested,
            reloading: self.reloading.take(),
            reloads_last: take(&mut self.reloads_last),
            reload_completers: take(&mut self.reload_completers),
            completers: take(&mut self.completers),
            running: self.running.take().map(Running::out_of_scope),
            failures: take(&mut self.failures),
        }
    }

    fn told(&mut self) -> Result<(), ExecutionError> {
        match ExecutionError::of(take(&mut self.failures)) {
            None => Ok(()),
            Some(error) => Err(self.executor.tell(error, false)),
        }
    }

    /// Notes what has failed, in case nobody is there any more when it is to be told.
    fn note<R>(&mut self, result: std::thread::Result<Result<R, BoxError>>) -> Ended<R> {
        let (cause, ended) = match result {
            Ok(Ok(value)) => return Ended::Value(value),
            Ok(Err(cause)) => (cause, Ended::Failed),
            Err(panic) => (Panicked::new(panic_message(&*panic)).into(), Ended::Panicked(panic)),
        };
        self.failures.push(Failure::new(Stage::Body, cause));
        ended
    }
    fn settle<R>(mut self, ended: Ended<R>) -> Result<R, ExecutionError> {
        let told = self.told();
        drop(self);
        match (ended, told) {
            (Ended::Value(value), Ok(())) => Ok(value),
            (Ended::Value(value), Err(error)) => {
                release(value);
                Err(error)
            }
            (Ended::Failed, told) => Err(told.expect_err("it has failed")),
            (Ended::Panicked(panic), told) => {
                release(told);
                resume_unwind(panic)
            }
        }
    }
}

impl Drop for Execution<'_> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        if let Some(returning) = self.running.as_ref().and_then(Running::returning) {
            late::end(self.take(), &returning);
            return;
        }
        self.end();
        if let Some(error) = ExecutionError::of(take(&mut self.failures)) {
            release(self.executor.tell(error, true));
        }
    }
}

impl fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("executor", &self.executor).finish_non_exhaustive()
    }
}
