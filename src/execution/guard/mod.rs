//! An execution from its hooks' run to their completion.
//!
//! It is completed once, because whoever completes it takes what there is to complete: `complete`,
//! `reset`, the end of a `wrap` and the drop all go through `end`, which leaves nothing behind.
//! What fails is kept with it, and told once, when it has left. No thread is bound to it: who has
//! the value ends the execution, wherever that is.

mod begin;
mod end;
mod failed;
mod late;
mod reload;

use super::ambient::{Runs, Scope};
use super::child::Child;
use super::error::{BoxError, ExecutionError};
use super::executor::Executor;
use super::hooks::Completers;
use super::interlock::{self, Running};
use super::reloading::Reloading;
use super::scoped::scoped;
use crate::sync::has_failed;
use crate::user_code::catch;
pub(crate) use begin::{Entry, Reload};
use failed::Failed;
use reload::Then;
use std::any::Any;
use std::fmt;
use std::future::poll_fn;
use std::mem::take;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// A running execution: its hooks have run, and will be completed.
///
/// Given to the body by [`Executor::wrap`], or returned by [`Executor::run`]. Dropping it completes
/// the hooks, too; what fails then is told to the reporter only. Its hooks are completed under its share: if
/// that was given up for a load that was then dropped, and somebody else holds, a drop leaves it to them, and
/// everything else waits. The hooks are called by that one's thread then, which does not count as being in its
/// own executions meanwhile.
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
    /// Inside another one, whichever: its share is not to be given up.
    inside: bool,
    /// Of its reloader, if that has begun it.
    reloading: Option<Arc<Reloading>>,
    /// To be reloaded before it is completed: until it may unload, or leaves that to the next.
    reloads_last: bool,
    /// How many reloads had begun when its end began to wait to unload: from there on it loads nothing.
    ends_since: Option<usize>,
    reload_completers: Completers,
    completers: Completers,
    /// Its share: entered first and left last.
    running: Option<Running<'scope>>,
    failed: Failed,
}

/// How a body has ended.
enum Ended<R> {
    Value(R),
    /// The failure is noted.
    Failed,
    Panicked(Box<dyn Any + Send>),
}

impl<'scope> Execution<'scope> {
    /// What a thread has to know that is in this execution.
    fn scope(&self) -> Scope {
        let by = if self.reloading.is_some() { Runs::ForReloader } else { Runs::ForExecutor };
        self.scope_as(by)
    }
    /// The same for what is called by it from outside: if it is over, that is no part of it.
    fn scope_within(&self) -> Scope {
        if self.failed.is_over() { self.scope_as(Runs::No) } else { self.scope() }
    }
    fn scope_as(&self, runs: Runs) -> Scope {
        let executor = (!self.nested).then(|| (self.executor.id(), runs));
        Scope { executor, share: self.running.as_ref().map(Running::scope) }
    }

    /// Its share of the interlock: handles to what is loaded borrow from it, and it loads.
    ///
    /// None if the executor has no interlock, or this is inside another execution on the same
    /// thread, and not in a permit block: then it has a share, but that one is to load, which would have to
    /// give its own up. What is loaded it sees by [`Interlock::run`](interlock::Interlock::run).
    pub fn running(&mut self) -> Option<&mut Running<'scope>> {
        self.running.as_mut().filter(|_| !self.inside)
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
            (None, Some(interlock)) => interlock.ambient_child(),
            (None, None) => None,
        };
        Child::new(self.executor.clone(), token)
    }

    /// Calls something while the executor counts as running on this thread, so that a
    /// [`wrap`](Executor::wrap) inside is a nested one. If its share was given up, by something that was
    /// then dropped, it waits for that first.
    ///
    /// Of one that is over, because it could not [begin anew](Self::reset), the executor does not count as running:
    /// a `wrap` inside has hooks of its own, and is refused on what is half reloaded. So it is to the end of this
    /// call, also if the body resets it, and that succeeds.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut Execution<'_>) -> R) -> R {
        self.await_share();
        self.assert_share();
        let _here = self.scope_within().enter();
        body(self)
    }

    /// Runs the body, and ends.
    pub(crate) fn carry<R>(
        mut self,
        body: impl FnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    ) -> Result<R, ExecutionError> {
        let result = catch(|| self.within(body));
        let ended = self.note(result);
        self.await_share();
        let _ = self.reload_last();
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
            let mut body = pin!(scoped(|| scope.clone().enter(), async {
                self.assert_share();
                body(&mut self).await
            }));
            poll_fn(|cx| match catch(|| body.as_mut().poll(cx)) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
                Err(panic) => Poll::Ready(Err(panic)),
            })
            .await
        };
        let ended = self.note(result);
        self.await_share_async().await;
        let _ = self.reload_last_async(Then::Ends).await;
        self.end();
        self.settle(ended)
    }

    /// The body of a nested one, as a future.
    pub(crate) async fn nest_async<R, F>(mut self, body: F) -> Result<R, BoxError>
    where
        F: AsyncFnOnce(&mut Execution<'_>) -> Result<R, BoxError>,
    {
        let scope = self.scope();
        scoped(|| scope.clone().enter(), async {
            self.assert_share();
            body(&mut self).await
        })
        .await
    }

    /// PROP-ILK-USE-UNDER-SHARE: what an execution calls is called while it has its share, or while it holds.
    /// Not of one that was forfeited; nor where its share was swapped for another interlock's, or there is none
    /// to have.
    #[inline]
    fn assert_share(&self) {
        #[cfg(debug_assertions)]
        if !has_failed() {
            let interlock =
                self.executor.interlock().filter(|_| !(self.nested && self.running.is_none()));
            let runs = interlock.is_none_or(|interlock| {
                self.running.as_ref().is_some_and(|share| share.may_be_used(interlock))
            });
            assert!(
                runs,
                "PROP-ILK-USE-UNDER-SHARE does not hold: hooks and body are called only under the execution's share"
            );
        }
    }

    /// All of it, out of its scope: nothing is left to be done.
    fn take(&mut self) -> Execution<'static> {
        Execution {
            executor: self.executor.clone(),
            nested: self.nested,
            inside: self.inside,
            reloading: self.reloading.take(),
            reloads_last: take(&mut self.reloads_last),
            ends_since: self.ends_since.take(),
            reload_completers: take(&mut self.reload_completers),
            completers: take(&mut self.completers),
            running: self.running.take().map(Running::out_of_scope),
            failed: take(&mut self.failed),
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
        self.tell_rest();
    }
}

impl fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").field("executor", &self.executor).finish_non_exhaustive()
    }
}
