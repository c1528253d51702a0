//! How an execution reloads: before its body, or after it.

use super::Execution;
use crate::execution::ReloadRefused;
use crate::execution::error::{Failure, Stage};
use crate::execution::hooks::Completers;
use crate::execution::interlock::{Interlock, Running, Unloading, World};
use crate::execution::preparing::{AtOnce, Preparing};
use crate::execution::reloading::Reloading;
use std::mem::take;
use std::sync::Arc;

/// What a reload does while nobody else runs: with the right to unload, the world, what
/// is to be completed, and where failures go.
type Alone = fn(
    &Reloading,
    &mut Unloading<'_>,
    &World,
    &mut Completers,
    &mut Vec<Failure>,
) -> Result<(), Failure>;

impl Execution<'_> {
    pub(super) fn reload_first(&mut self) -> Result<(), Failure> {
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        self.unload(&reloading, Reloading::reload_first)
    }
    pub(super) async fn reload_first_async(&mut self) -> Result<(), Failure> {
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        self.unload_async(&reloading, Reloading::reload_first).await
    }
    /// What is to be reloaded last. False if that has failed.
    pub(super) fn reload_last(&mut self) -> bool {
        let Some(reloading) = self.last() else { return true };
        let earlier = self.failures.len();
        let reloaded = self.unload(&reloading, Reloading::reload_last);
        self.reloaded(reloaded, earlier)
    }
    pub(super) async fn reload_last_async(&mut self) -> bool {
        let Some(reloading) = self.last() else { return true };
        let earlier = self.failures.len();
        let reloaded = self.unload_async(&reloading, Reloading::reload_last).await;
        self.reloaded(reloaded, earlier)
    }
    /// Its failure comes before those of what was completed after it.
    fn reloaded(&mut self, reloaded: Result<(), Failure>, earlier: usize) -> bool {
        reloaded.map_err(|failure| self.failures.insert(earlier, failure)).is_ok()
    }
    /// Its reloader, if there is something to be reloaded last: it is owed from here on.
    pub(super) fn last(&mut self) -> Option<Arc<Reloading>> {
        let reloading = self.reloading.clone().filter(|_| take(&mut self.reloads_last))?;
        reloading.owe();
        Some(reloading)
    }

    /// [`begin_reloaded`](Self::begin_reloaded) without blocking the thread: a step that has to wait to load
    /// is called once more, alone.
    pub(super) async fn begin_reloaded_async(&mut self) -> Result<(), Failure> {
        let Some(reloading) = self.reloading.clone().filter(|r| r.is_last()) else { return Ok(()) };
        if self.inside || self.running.is_none() {
            // Inside another execution it may not load, so it does not wait.
            return self.begin_reloaded();
        }
        self.assert_share();
        self.reloads_last = true;
        let scope = self.scope();
        {
            let _here = scope.clone().enter();
            reloading.steps.hooks.run(&mut self.reload_completers)?;
        }
        let mut next = 0;
        loop {
            let Some(running) = &mut self.running else { return Err(no_share()) };
            let mut at_once = AtOnce { running, refused: false };
            let prepared = {
                let _here = scope.clone().enter();
                reloading.prepare_from(&mut next, &mut Preparing::new(Some(&mut at_once)))
            };
            if prepared.is_ok() || !at_once.refused {
                return prepared;
            }
            let loading = at_once.running.load_async().await;
            let mut loading = loading.map_err(|refused| Failure::new(Stage::Prepare, refused))?;
            let prepared = {
                let _here = (scope.clone().enter(), loading.scope().enter());
                let mut alone = loading.loading();
                reloading.prepare_one(&mut next, &mut Preparing::new(Some(&mut alone)))
            };
            loading.finish().await;
            prepared?;
        }
    }

    /// Waits until nobody else runs, and reloads.
    fn unload(&mut self, reloading: &Reloading, alone: Alone) -> Result<(), Failure> {
        let _here = self.scope().enter();
        let interlock = self.executor.interlock().filter(|_| !self.inside).ok_or_else(no_share)?;
        let running = own(&mut self.running, interlock)?;
        let world = interlock.world();
        let completers = &mut self.reload_completers;
        let failures = &mut self.failures;
        let unloaded = running.unload(|unloading| {
            let _reload = interlock.reload_scope();
            alone(reloading, unloading, world, completers, failures)
        });
        unloaded.map_err(|refused| Failure::new(Stage::Unload, refused))?
    }
    async fn unload_async(&mut self, reloading: &Reloading, alone: Alone) -> Result<(), Failure> {
        let scope = self.scope();
        let interlock = self.executor.interlock().filter(|_| !self.inside).ok_or_else(no_share)?;
        let running = own(&mut self.running, interlock)?;
        let world = interlock.world();
        let completers = &mut self.reload_completers;
        let unloading = running.unload_async().await;
        let mut unloading = unloading.map_err(|refused| Failure::new(Stage::Unload, refused))?;
        let result = {
            let _here = (scope.enter(), unloading.scope().enter(), interlock.reload_scope());
            alone(reloading, &mut unloading.unloading(), world, completers, &mut self.failures)
        };
        unloading.finish().await;
        result
    }
}

/// The share, unless whoever has the execution has swapped it for one of another interlock.
fn own<'e, 'scope>(
    running: &'e mut Option<Running<'scope>>,
    interlock: &Interlock,
) -> Result<&'e mut Running<'scope>, Failure> {
    running.as_mut().filter(|running| running.is_of(interlock)).ok_or_else(no_share)
}

fn no_share() -> Failure {
    Failure::new(Stage::Unload, ReloadRefused::InsideExecution)
}
