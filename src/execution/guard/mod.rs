//! An execution, from running its hooks to completing them.
//!
//! Hooks are completed once: `complete`, `reset`, the end of a `wrap` and the drop all take them out of one list.
//! Failures are stored, and reported once, when the execution has left. An execution is bound to no thread: any
//! thread that owns the value may end it.

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
/// [`Executor::wrap`] gives it to the body, and [`Executor::run`] returns it. Dropping it completes the hooks, too;
/// failures then go to the reporter only.
///
/// Hooks are completed under the execution's share. If a dropped load gave the share up and another owner holds, a
/// drop leaves the completion to the holder's thread; every other call waits. That thread does not count as being in
/// its own executions while it calls these hooks.
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
/// The lifetime keeps a body from swapping its execution, or its share, for another. User code never has to write it.
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
    /// It is inside another execution of the same executor, and runs no hooks.
    nested: bool,
    /// It is inside another execution of any executor, and must not give up its share.
    inside: bool,
    /// Present if a reloader began it.
    reloading: Option<Arc<Reloading>>,
    /// Whether it reloads before its completion: until it may unload, or leaves that to the next execution.
    reloads_last: bool,
    /// The number of reloads that had begun when its end began to wait to unload. From then on it loads no code.
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
    /// The failure is stored.
    Failed,
    Panicked(Box<dyn Any + Send>),
}

impl<'scope> Execution<'scope> {
    /// Returns the scope that a thread enters to be in this execution.
    fn scope(&self) -> Scope {
        let by = if self.reloading.is_some() { Runs::ForReloader } else { Runs::ForExecutor };
        self.scope_as(by)
    }
    /// The same, for calls from outside: a finished execution has no part in them.
    fn scope_within(&self) -> Scope {
        if self.failed.is_over() { self.scope_as(Runs::No) } else { self.scope() }
    }
    fn scope_as(&self, runs: Runs) -> Scope {
        let executor = (!self.nested).then(|| (self.executor.id(), runs));
        Scope { executor, share: self.running.as_ref().map(Running::scope) }
    }

    /// Returns the execution's share of the interlock: handles to loaded values borrow from it, and it can load.
    ///
    /// Returns `None` if the executor has no interlock. Returns `None`, too, inside another execution on the same
    /// thread, except in a permit block. There the outer execution loads, because a load must give up the outer
    /// share. The nested one sees loaded values by [`Interlock::run`](interlock::Interlock::run).
    pub fn running(&mut self) -> Option<&mut Running<'scope>> {
        self.running.as_mut().filter(|_| !self.inside)
    }

    /// Returns a token with which a thread or task begins an execution that this one may wait for. The child is let
    /// in although a reload waits, because that reload waits for this execution.
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
            // A child of the execution around this one.
            (None, Some(interlock)) => interlock.ambient_child(),
            (None, None) => None,
        };
        Child::new(self.executor.clone(), token)
    }

    /// Calls `body` while the executor counts as running on this thread, so that a [`wrap`](Executor::wrap) inside is
    /// nested. If a dropped future gave the share up, waits first until the share is back.
    ///
    /// If the execution is finished because a [reset](Self::reset) failed, the executor does not count as running. A
    /// `wrap` inside then has hooks of its own, and is refused on a half reloaded world. This holds until the end of
    /// the call, even if the body resets the execution with success.
    pub fn within<R>(&mut self, body: impl FnOnce(&mut Execution<'_>) -> R) -> R {
        self.await_share();
        self.assert_share();
        let _here = self.scope_within().enter();
        body(self)
    }

    /// Runs the body, and ends the execution.
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

    /// Runs the body, which is in this execution whenever it is polled, and ends the execution.
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

    /// Runs the body of a nested execution, as a future.
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

    /// Asserts PROP-ILK-USE-UNDER-SHARE: an execution calls user code only while it has its share or holds. Does not
    /// apply to a forfeited execution, to a share swapped for another interlock's, or without any share.
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

    /// Takes everything out of the execution, which has no work left, and out of its scope.
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
