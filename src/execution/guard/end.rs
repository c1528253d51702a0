//! How an execution ends: what is to be reloaded last is reloaded, what has run is completed, and the share
//! is left.
//!
//! Whoever waits here waits for the share alone, or to unload; dropped meanwhile, the execution is ended by
//! its drop.

use super::failed::Over;
use super::reload::Then;
use super::{Ended, Execution};
use crate::execution::error::{BoxError, ExecutionError, Failure, HalfReloaded, Panicked, Stage};
use crate::user_code::{drop_contained, panic_message};
use std::panic::resume_unwind;

impl Execution<'_> {
    /// Completes the hooks, and runs them again: a new execution in the place of this one. A nested
    /// one does neither.
    ///
    /// The share is kept, so nothing is reloaded in between, and no hook of a reloader is run again; but one
    /// that [always](crate::execution::ReloaderBuilder::always) reloads does all that it does between two
    /// bodies: it unloads, runs its hooks, and prepares.
    ///
    /// The reporter is told of what fails while the share is kept, and within the execution, so what it executes
    /// waits for nobody: it is nested, or, where none could begin, as in [`within`](Self::within).
    ///
    /// # Errors
    /// What kept the new one from beginning: the reload after the former one, [`HalfReloaded`], a hook, or what
    /// prepares. Then the execution is over: the hooks that had run were completed, nothing is left to be done,
    /// and what is called by it all the same, [`within`](Self::within) say, runs without hooks, and as no part of
    /// it. (The rest of a body that has called this is still one: see [Limits](crate::execution#limits).) A reset of
    /// it tries to begin once more. Otherwise a [`Stage::Complete`] of the former one, and the new one runs. The
    /// reporter has been told.
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
    /// Dropped while it waits for its share, or to unload, it has done nothing: the former execution goes on, and
    /// what it was to unload, its end or another reset unloads.
    ///
    /// Dropped after that, while others that waited to load or unload have their turn, the former execution goes on,
    /// too; but in a world that was unloaded, in which nothing was prepared, and the reloader's hooks were
    /// completed. What it loads from then on is not left: its end, or another reset, unloads once more. If the unload
    /// has failed, it is over, as after a reset that has failed, except that its executor's hooks are still to be
    /// completed; the reporter is told by its end, or by the next reset.
    ///
    /// Dropped while what prepares waits to load, or others have their turn after that, the new one goes on, not
    /// wholly prepared; if it has failed to prepare, it is over as said before.
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
    /// With the share of the former one.
    fn begin_anew(&mut self) -> Result<(), Over> {
        // A body that unloads by hand lets others reload first, who may have failed.
        let run = match self.is_half_reloaded() {
            true => Err(Failure::new(Stage::Enter, HalfReloaded)),
            false => self.run_hooks(),
        };
        self.failed.first(run)?;
        // Here, for what prepares may wait, and its future be dropped.
        self.failed.has_begun_anew();
        Ok(())
    }
    /// Of one that could not begin, what has run is completed.
    fn is_reset(&mut self, begun: Result<(), Over>) -> Result<(), ExecutionError> {
        if let Err(Over) = begun {
            self.owe_last();
            self.complete_all();
        }
        // Who is told may execute, and has the share: it would wait for itself.
        let _here = self.scope_within().enter();
        self.told()
    }
    /// Of what a former reset has noted, whose future was dropped, this one does not fail.
    fn tell_earlier(&mut self) {
        let _here = self.scope_within().enter();
        self.tell_rest();
    }

    /// Completes the hooks, the last that ran first: every one, whatever fails.
    ///
    /// # Errors
    /// The first failure, with the others attached. The reporter has been told.
    pub fn complete(mut self) -> Result<(), ExecutionError> {
        self.await_share();
        let _ = self.reload_last();
        self.end();
        self.told()
    }
    /// [`complete`](Self::complete) for a task: waiting, for a share that was given up, or to unload, does
    /// not block the thread.
    ///
    /// # Errors
    /// Those of `complete`.
    ///
    /// # Cancel safety
    /// Dropped at an await, the execution is dropped: its hooks are completed all the same, and what fails, or has
    /// failed, is told to the reporter only. What it was to unload, the next execution of the reloader unloads
    /// before its body, unless that was done: while others that waited have their turn after it, it is.
    pub async fn complete_async(mut self) -> Result<(), ExecutionError> {
        self.await_share_async().await;
        let _ = self.reload_last_async(Then::Ends).await;
        self.end();
        self.told()
    }

    /// What is done under its share waits for it, if the body has dropped what it had given it up for.
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
    /// Completes whatever there is to complete, and leaves. Waits for nobody, and has its share: a reload that is due
    /// last, and was not made, is owed to the next execution.
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
    /// Tells of what nobody else is told of.
    pub(super) fn tell_rest(&mut self) {
        if let Some(error) = self.failed.take() {
            drop_contained(self.executor.tell(error, true));
        }
    }

    /// Notes what has failed, in case nobody is there any more when it is to be told.
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
