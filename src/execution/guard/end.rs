//! How an execution ends: what is to be reloaded last is reloaded, what has run is completed, and the share
//! is left.
//!
//! Whoever waits here waits for the share alone, or to unload; dropped meanwhile, the execution is ended by
//! its drop.

use super::{Ended, Execution};
use crate::execution::HalfReloaded;
use crate::execution::error::{BoxError, ExecutionError, Failure, Panicked, Stage};
use crate::foreign::{panic_message, release};
use std::mem::take;
use std::panic::resume_unwind;

impl Execution<'_> {
    /// Completes the hooks, and runs them again: a new execution in the place of this one. A nested
    /// one does neither.
    ///
    /// The share is kept, so nothing is reloaded in between, and no hook of a reloader is run again; but one
    /// that [always](crate::execution::ReloaderBuilder::always) reloads does all that it does between two
    /// bodies: it unloads, runs its hooks, and prepares.
    ///
    /// # Errors
    /// What kept the new one from beginning: the reload after the former one, [`HalfReloaded`], a hook, or what
    /// prepares. Then there is none, the hooks that had run were completed, and nothing is left to be done:
    /// what is called by it all the same, [`within`](Self::within) say, runs without hooks. Otherwise a
    /// [`Stage::Complete`] of the former one, and the new one runs. The reporter has been told.
    pub fn reset(&mut self) -> Result<(), ExecutionError> {
        if self.nested {
            return Ok(());
        }
        self.await_share();
        let reloaded = self.reload_last();
        self.complete_all();
        if reloaded {
            let begun = self.begin_anew().and_then(|()| self.begin_reloaded());
            self.has_begun_anew(begun);
        }
        self.told()
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
    /// Dropped at an await, the former execution goes on: nothing was completed. What it was to unload at its
    /// end, the next execution of the reloader unloads before its body. If that was done, and what prepares has to
    /// wait to load, the new one goes on, not wholly prepared.
    pub async fn reset_async(&mut self) -> Result<(), ExecutionError> {
        if self.nested {
            return Ok(());
        }
        self.await_share_async().await;
        let reloaded = self.reload_last_async().await;
        self.complete_all();
        if reloaded {
            let mut begun = self.begin_anew();
            if begun.is_ok() {
                begun = self.begin_reloaded_async().await;
            }
            self.has_begun_anew(begun);
        }
        self.told()
    }
    /// With the share of the former one.
    fn begin_anew(&mut self) -> Result<(), Failure> {
        // A body that unloads by hand lets others reload first, who may have failed.
        match self.is_half_reloaded() {
            true => Err(Failure::new(Stage::Enter, HalfReloaded)),
            false => self.run_hooks(),
        }
    }
    /// Of one that could not, what has run is completed.
    fn has_begun_anew(&mut self, begun: Result<(), Failure>) {
        if let Err(failure) = begun {
            self.failures.insert(0, failure);
            self.last();
            self.complete_all();
        }
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
    /// [`complete`](Self::complete) for a task: waiting, for a share that was given up, or to unload, does
    /// not block the thread.
    ///
    /// # Errors
    /// Those of `complete`.
    ///
    /// # Cancel safety
    /// Dropped at an await, the execution is dropped: its hooks are completed all the same, and what fails is
    /// told to the reporter only. What it was to unload, the next execution of the reloader unloads before
    /// its body.
    pub async fn complete_async(mut self) -> Result<(), ExecutionError> {
        self.await_share_async().await;
        self.reload_last_async().await;
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
        self.last();
        self.complete_all();
        self.running = None;
    }
    fn complete_all(&mut self) {
        if self.reload_completers.is_empty() && self.completers.is_empty() {
            return;
        }
        self.assert_share();
        let _here = self.scope().enter();
        self.reload_completers.complete(&mut self.failures);
        self.completers.complete(&mut self.failures);
    }

    pub(super) fn told(&mut self) -> Result<(), ExecutionError> {
        match ExecutionError::of(take(&mut self.failures)) {
            None => Ok(()),
            Some(error) => Err(self.executor.tell(error, false)),
        }
    }

    /// Notes what has failed, in case nobody is there any more when it is to be told.
    pub(super) fn note<R>(&mut self, result: std::thread::Result<Result<R, BoxError>>) -> Ended<R> {
        let (cause, ended) = match result {
            Ok(Ok(value)) => return Ended::Value(value),
            Ok(Err(cause)) => (cause, Ended::Failed),
            Err(panic) => (Panicked::new(panic_message(&*panic)).into(), Ended::Panicked(panic)),
        };
        self.failures.push(Failure::new(Stage::Body, cause));
        ended
    }
    pub(super) fn settle<R>(mut self, ended: Ended<R>) -> Result<R, ExecutionError> {
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
