//! How an execution begins: it enters, runs its hooks, and reloads if a reload is due.

use super::Execution;
use super::failed::{Failed, Over};
use crate::execution::error::{ExecutionError, Failure, HalfReloaded, Stage};
use crate::execution::executor::Executor;
use crate::execution::hooks::Completers;
use crate::execution::interlock::{self, AcquireError, Interlock, Share};
use crate::execution::preparing::{Loads, Preparing};
use crate::execution::reloading::Reloading;
use std::sync::Arc;

/// Where an execution may end, and so which kind of share it gets.
pub(crate) enum Entry {
    /// On this thread's stack, or in a future that begins here. Inside another execution, its share follows that
    /// one's.
    Scope,
    /// Anywhere.
    Guard,
    /// Anywhere. The execution begins by a child's token, if there is an interlock.
    Child(Option<interlock::Child>),
}

/// Whether an execution of a reloader reloads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reload {
    IfDue,
    /// A reload was requested.
    Anyway,
}

impl Execution<'static> {
    fn idle(executor: Executor, reloading: Option<Arc<Reloading>>) -> Self {
        Execution {
            executor,
            nested: false,
            inside: false,
            reloading,
            reloads_last: false,
            ends_since: None,
            reload_completers: Completers::default(),
            completers: Completers::default(),
            running: None,
            failed: Failed::default(),
        }
    }
    /// Returns an execution inside another of the same executor: it runs no hooks.
    pub(crate) fn nested(executor: Executor) -> Self {
        let mut execution = Execution::idle(executor, None);
        execution.nested = true;
        execution
    }
    /// Returns a nested execution with a share, for a body that is called at once.
    pub(crate) fn nested_here(executor: Executor) -> Result<Self, ExecutionError> {
        let mut execution = Execution::nested(executor);
        match execution.enter(Entry::Scope) {
            Ok(()) => Ok(execution),
            Err(failure) => Err(ExecutionError::new(failure, Vec::new())),
        }
    }
    /// The same, for a future.
    pub(crate) async fn nested_async(executor: Executor) -> Result<Self, ExecutionError> {
        let mut execution = Execution::nested(executor);
        match execution.enter_async(Entry::Scope).await {
            Ok(()) => Ok(execution),
            Err(failure) => Err(ExecutionError::new(failure, Vec::new())),
        }
    }

    /// Returns an execution that has entered, reloaded if that was due, and run its hooks.
    pub(crate) fn start(
        executor: Executor,
        entry: Entry,
        reloading: Option<(Arc<Reloading>, Reload)>,
    ) -> Result<Self, ExecutionError> {
        let (reloading, reload) = reloading.unzip();
        let mut execution = Execution::idle(executor, reloading);
        let begun = execution.begin_by(entry, reload);
        execution.begun(begun)
    }
    fn begin_by(&mut self, entry: Entry, reload: Option<Reload>) -> Result<(), Over> {
        let begun = self.enter(entry).and_then(|()| self.begin(reload));
        let mut due = self.failed.first(begun)?;
        while due {
            self.reload_first()?;
            due = self.is_half_reloaded();
        }
        let begun = self.begin_reloaded();
        self.failed.first(begun)
    }
    /// The same, without blocking the thread.
    pub(crate) async fn start_async(
        executor: Executor,
        entry: Entry,
        reloading: Option<Arc<Reloading>>,
    ) -> Result<Self, ExecutionError> {
        let mut execution = Execution::idle(executor, reloading);
        let begun = execution.begin_async(entry).await;
        execution.begun(begun)
    }
    async fn begin_async(&mut self, entry: Entry) -> Result<(), Over> {
        let entered = self.enter_async(entry).await;
        let begun = entered.and_then(|()| self.begin(Some(Reload::IfDue)));
        let mut due = self.failed.first(begun)?;
        while due {
            self.reload_first_async().await?;
            due = self.is_half_reloaded();
        }
        self.begin_reloaded_async().await
    }

    fn enter(&mut self, entry: Entry) -> Result<(), Failure> {
        let Some(interlock) = self.executor.interlock() else { return Ok(()) };
        let share = match entry {
            Entry::Scope => interlock.share(),
            Entry::Child(Some(token)) if !interlock.is_alone_here() => {
                Ok(Share { running: token.enter(), inside: false })
            }
            Entry::Guard | Entry::Child(_) => interlock.share_apart(),
        };
        self.entered(share)
    }
    async fn enter_async(&mut self, entry: Entry) -> Result<(), Failure> {
        let Some(interlock) = self.executor.interlock() else { return Ok(()) };
        let share = match entry {
            Entry::Scope => interlock.share_async().await,
            Entry::Child(Some(token)) if !interlock.is_alone_here() => {
                Ok(Share { running: token.enter_async().await, inside: false })
            }
            Entry::Guard | Entry::Child(_) => {
                interlock.share_async().await.map(|share| Share { inside: false, ..share })
            }
        };
        self.entered(share)
    }
    fn entered(&mut self, share: Result<Share, AcquireError>) -> Result<(), Failure> {
        let share = share.map_err(|refused| Failure::new(Stage::Enter, refused))?;
        (self.running, self.inside) = (Some(share.running), share.inside);
        Ok(())
    }

    /// Ends an execution that could not begin, without waiting.
    fn begun(mut self, begun: Result<(), Over>) -> Result<Self, ExecutionError> {
        match begun {
            Ok(()) => Ok(self),
            Err(Over) => {
                self.end();
                Err(self.told().expect_err("it has failed"))
            }
        }
    }
}

impl Execution<'_> {
    /// Runs the executor's hooks. Returns whether a reload is due.
    fn begin(&mut self, reload: Option<Reload>) -> Result<bool, Failure> {
        let reloading = self.reloading.clone().filter(|reloading| reloading.is_enabled());
        let half_reloaded = self.is_half_reloaded();
        if reloading.is_none() && half_reloaded {
            return Err(Failure::new(Stage::Enter, HalfReloaded));
        }
        self.run_hooks()?;
        let Some(reloading) = reloading else { return Ok(false) };
        if reload == Some(Reload::Anyway) {
            reloading.ask();
        }
        let _here = self.scope().enter();
        Ok(reloading.is_due_first()? || half_reloaded)
    }
    pub(super) fn is_half_reloaded(&self) -> bool {
        self.executor.interlock().is_some_and(Interlock::is_half_reloaded_here)
    }
    pub(super) fn run_hooks(&mut self) -> Result<(), Failure> {
        if self.executor.inner.hooks.is_empty() {
            return Ok(());
        }
        self.assert_share();
        let _here = self.scope().enter();
        self.executor.inner.hooks.run(&mut self.completers)
    }
    pub(super) fn begin_reloaded(&mut self) -> Result<(), Failure> {
        let Some(reloading) = self.reloading.clone().filter(|r| r.is_last()) else { return Ok(()) };
        self.assert_share();
        let _here = self.scope().enter();
        self.reloads_last = true;
        let share = self.running.as_mut().filter(|_| !self.inside);
        let share = share.map(|running| running as &mut dyn Loads);
        reloading.begin_shared(&mut Preparing::new(share), &mut self.reload_completers)
    }
}
