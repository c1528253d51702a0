//! How an execution ends: it makes the last reload if one is due, completes its hooks, and leaves its share.
//!
//! It waits only for its share, or to unload. If its future is dropped meanwhile, the drop ends the execution.

use super::failed::Over;
use super::reload::Then;
use super::{Ended, Execution};
use crate::execution::error::{BoxError, ExecutionError, Failure, HalfReloaded, Panicked, Stage};
use crate::user_code::{drop_contained, panic_message};
use std::panic::resume_unwind;

impl Execution<'_> {
    /// Completes the hooks and runs them again: a new execution begins in the place of this one. A nested execution
    /// does neither.
    ///
    /// The share is kept, so the reloader does not reload in between, and its hooks are not run again. A reloader
    /// that [always](crate::execution::ReloaderBuilder::always) reloads does all that it does between two bodies: it
    /// unloads, runs its hooks, and prepares.
    ///
    /// The reporter is called within the execution, which keeps its share. An execution that the reporter begins is
    /// therefore nested and does not wait. If the new execution could not begin, it runs as in
    /// [`within`](Self::within).
    ///
    /// # Errors
    /// - The failure that kept the new execution from beginning: the reload after the former one, [`HalfReloaded`], a
    ///   hook, or a preparation. The execution is then finished: the hooks that had run were completed. Calls through
    ///   it, for example [`within`](Self::within), run without hooks and as no part of it. (The rest of a body that
    ///   has called this still belongs to it: see [Limits](crate::execution#limits).) Another reset tries to begin
    ///   again.
    /// - Otherwise a [`Stage::Complete`] failure of the former execution; the new one runs.
    ///
    /// The error was reported before.
    pub fn reset(&mut self) -> Result<(), ExecutionError> {
        if self.nested {
            return Ok(());
        }
        self.await_share();
        self.tell_earlier();
        let reloaded = self.reload_last();
        self.complete_all();
        let mut begun = reloaded.and_then(|()| self.begin_anew());
        if begun.is_ok() {
            let prepared = self.begin_reloaded();
            begun = self.failed.first(prepared);
        }
        self.is_reset(begun)
    }
    /// [`reset`](Self::reset) for a task: waiting does not block the thread.
    ///
    /// ```
    /// # use cabrank::execution::{ExecutionError, Executor};
    /// # async fn example(executor: Executor) -> Result<(), ExecutionError> {
    /// let mut execution = executor.run_async().await?;
    /// execution.reset_async().await?; // completed, and run again
    /// execution.complete_async().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `reset`.
    ///
    /// # Cancel safety
    /// - Dropped while it waits for its share, or to unload, it has done no work. The former execution goes on, and
    ///   its end or another reset unloads.
    /// - Dropped after the unload, while other owners have their turn, it leaves the former execution in an unloaded
    ///   world. The reloader's hooks were completed, and no preparation has run. Code that is loaded from then on is
    ///   unloaded once more, by the execution's end or another reset.
    /// - If that unload failed, the execution is finished, as after a failed reset, but its executor's hooks are
    ///   still to be completed. Its end, or the next reset, reports the failure.
    /// - Dropped while a preparation waits to load, or while others have their turn after that, it leaves the new
    ///   execution partly prepared. If a preparation has failed, the execution is finished, as above.
    pub async fn reset_async(&mut self) -> Result<(), ExecutionError> {
        if self.nested {
            return Ok(());
        }
        self.await_share_async().await;
        self.tell_earlier();
        let reloaded = self.reload_last_async(Then::BeginsAnew).await;
        self.complete_all();
        let mut begun = reloaded.and_then(|()| self.begin_anew());
        if begun.is_ok() {
            begun = self.begin_reloaded_async().await;
        }
        self.is_reset(begun)
    }
    /// Begins the new execution under the former one's share.
    fn begin_anew(&mut self) -> Result<(), Over> {
        // An explicit unload in the body lets other owners reload first, and such a reload may have failed.
        let run = match self.is_half_reloaded() {
            true => Err(Failure::new(Stage::Enter, HalfReloaded)),
            false => self.run_hooks(),
        };
        self.failed.first(run)?;
        // Before the preparation, which may wait, and its future may be dropped.
        self.failed.has_begun_anew();
        Ok(())
    }
    /// Reports, after completing the hooks that have run if the new execution could not begin.
    fn is_reset(&mut self, begun: Result<(), Over>) -> Result<(), ExecutionError> {
        if let Err(Over) = begun {
            self.owe_last();
            self.complete_all();
        }
        // The reporter may begin an execution. This thread has the share, so that execution must nest: it would wait
        // for itself.
        let _here = self.scope_within().enter();
        self.told()
    }
    /// Reports the failures of a former reset whose future was dropped: they do not fail this one.
    fn tell_earlier(&mut self) {
        let _here = self.scope_within().enter();
        self.tell_rest();
    }

    /// Completes every hook in reverse order, even if one fails.
    ///
    /// # Errors
    /// The first failure, with the others attached. It was reported before.
    pub fn complete(mut self) -> Result<(), ExecutionError> {
        self.await_share();
        let _ = self.reload_last();
        self.end();
        self.told()
    }
    /// [`complete`](Self::complete) for a task: waiting for a share that was given up, or to unload, does not block
    /// the thread.
    ///
    /// # Errors
    /// Those of `complete`.
    ///
    /// # Cancel safety
    /// Dropping the future drops the execution. Its hooks are still completed, and failures go to the reporter only.
    /// If the execution had to unload and has not yet, the reloader's next execution does so before its body. After
    /// the unload, while others have their turn, it has no unload left to make.
    pub async fn complete_async(mut self) -> Result<(), ExecutionError> {
        self.await_share_async().await;
        let _ = self.reload_last_async(Then::Ends).await;
        self.end();
        self.told()
    }

    /// Waits until the share is back, if the body has dropped a future for which the share was given up.
    pub(super) fn await_share(&self) {
        if let Some(running) = &self.running {
            running.await_share();
        }
    }
    pub(super) async fn await_share_async(&mut self) {
        if let Some(running) = &self.running {
            running.await_share_async().await;
        }
    }
    /// Completes the remaining hooks, and leaves. The caller has the share, and this never waits. A last reload that
    /// was not made is owed to the next execution.
    pub(super) fn end(&mut self) {
        self.owe_last();
        self.complete_all();
        self.running = None;
    }
    fn complete_all(&mut self) {
        if self.reload_completers.is_empty() && self.completers.is_empty() {
            return;
        }
        self.assert_share();
        let _here = self.scope().enter();
        self.reload_completers.complete(&mut self.failed.failures);
        self.completers.complete(&mut self.failed.failures);
    }

    pub(super) fn told(&mut self) -> Result<(), ExecutionError> {
        match self.failed.take() {
            None => Ok(()),
            Some(error) => Err(self.executor.tell(error, false)),
        }
    }
    /// Reports the failures that no caller gets.
    pub(super) fn tell_rest(&mut self) {
        if let Some(error) = self.failed.take() {
            drop_contained(self.executor.tell(error, true));
        }
    }

    /// Stores a failure of the body, because the future may be dropped before the failure is reported.
    pub(super) fn note<R>(&mut self, result: std::thread::Result<Result<R, BoxError>>) -> Ended<R> {
        let (cause, ended) = match result {
            Ok(Ok(value)) => return Ended::Value(value),
            Ok(Err(cause)) => (cause, Ended::Failed),
            Err(panic) => (Panicked::new(panic_message(&*panic)).into(), Ended::Panicked(panic)),
        };
        self.failed.failures.push(Failure::new(Stage::Body, cause));
        ended
    }
    pub(super) fn settle<R>(mut self, ended: Ended<R>) -> Result<R, ExecutionError> {
        let told = self.told();
        drop(self);
        match (ended, told) {
            (Ended::Value(value), Ok(())) => Ok(value),
            (Ended::Value(value), Err(error)) => {
                drop_contained(value);
                Err(error)
            }
            (Ended::Failed, told) => Err(told.expect_err("it has failed")),
            (Ended::Panicked(panic), told) => {
                drop_contained(told);
                resume_unwind(panic)
            }
        }
    }
}
