//! How an execution reloads: before its body, or after it.

use super::Execution;
use super::failed::Over;
use crate::execution::error::{Failure, ReloadRefused, Stage};
use crate::execution::hooks::Completers;
use crate::execution::interlock::{Interlock, Running, Unloading, UnloadingGuard, World};
use crate::execution::preparing::{AtOnce, Preparing};
use crate::execution::reloading::Reloading;
use std::mem::take;
use std::sync::Arc;

/// The work of a reload while no other owner runs. Its arguments: the reloader, the right to unload, the world, the
/// list of completers, and the list of failures.
type Alone = fn(
    &Reloading,
    &mut Unloading<'_>,
    &World,
    &mut Completers,
    &mut Vec<Failure>,
) -> Result<(), Failure>;

/// The step after a last reload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// The execution ends. If its future is dropped, so is the execution.
    Ends,
    /// A new execution begins. If its future is dropped, this one goes on.
    BeginsAnew,
}

impl Execution<'_> {
    pub(super) fn reload_first(&mut self) -> Result<(), Over> {
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        self.unload(&reloading, Reloading::reload_first)
    }
    pub(super) async fn reload_first_async(&mut self) -> Result<(), Over> {
        let Some(reloading) = self.reloading.clone() else { return Ok(()) };
        self.unload_async(&reloading, Reloading::reload_first, Then::Ends).await
    }
    /// Makes the last reload, if one is due.
    pub(super) fn reload_last(&mut self) -> Result<(), Over> {
        let Some(reloading) = self.last() else { return Ok(()) };
        self.unload(&reloading, Reloading::reload_last)
    }
    pub(super) async fn reload_last_async(&mut self, then: Then) -> Result<(), Over> {
        let Some(reloading) = self.last() else { return Ok(()) };
        self.unload_async(&reloading, Reloading::reload_last, then).await
    }
    /// Returns its reloader, if a last reload is due.
    fn last(&self) -> Option<Arc<Reloading>> {
        self.reloading.clone().filter(|_| self.reloads_last)
    }
    /// Leaves a last reload that was not made to the next execution.
    pub(super) fn owe_last(&mut self) {
        if take(&mut self.reloads_last) {
            if let Some(reloading) = &self.reloading {
                match self.ends_since {
                    Some(reloads) => reloading.owe_since(reloads),
                    None => reloading.owe(),
                }
            }
        }
    }

    /// [`begin_reloaded`](Self::begin_reloaded) without blocking the thread: a preparation that would have to wait to
    /// load is called once more, alone.
    pub(super) async fn begin_reloaded_async(&mut self) -> Result<(), Over> {
        let Some(reloading) = self.reloading.clone().filter(|r| r.is_last()) else { return Ok(()) };
        if self.inside || self.running.is_none() {
            // Inside another execution it must not load, so it does not wait.
            let begun = self.begin_reloaded();
            return self.failed.first(begun);
        }
        self.assert_share();
        self.reloads_last = true;
        let scope = self.scope();
        let run = {
            let _here = scope.clone().enter();
            reloading.steps.hooks.run(&mut self.reload_completers)
        };
        self.failed.first(run)?;
        let mut next = 0;
        loop {
            let running = self.failed.first(self.running.as_mut().ok_or_else(no_share))?;
            let mut at_once = AtOnce { running, refused: false };
            let prepared = {
                let _here = scope.clone().enter();
                reloading.prepare_from(&mut next, &mut Preparing::new(Some(&mut at_once)))
            };
            if prepared.is_ok() || !at_once.refused {
                return self.failed.first(prepared);
            }
            let loading = at_once.running.load_async().await;
            let loading = loading.map_err(|refused| Failure::new(Stage::Prepare, refused));
            let mut loading = self.failed.first(loading)?;
            let prepared = {
                let _here = (scope.clone().enter(), loading.scope().enter());
                let mut alone = loading.loading();
                reloading.prepare_one(&mut next, &mut Preparing::new(Some(&mut alone)))
            };
            let prepared = self.failed.first(prepared);
            loading.finish().await;
            prepared?;
        }
    }

    /// Waits until no other owner runs, and reloads. Its failure comes before those of the completions after it.
    fn unload(&mut self, reloading: &Reloading, alone: Alone) -> Result<(), Over> {
        let (place, seen) = (self.failed.place(), reloading.reloads());
        let _here = self.scope().enter();
        let unloaded = self.unload_as_thread(reloading, seen, alone);
        self.failed.at(place, unloaded)
    }
    fn unload_as_thread(
        &mut self,
        reloading: &Reloading,
        seen: usize,
        alone: Alone,
    ) -> Result<(), Failure> {
        let interlock = self.executor.interlock().filter(|_| !self.inside).ok_or_else(no_share)?;
        let running = own(&mut self.running, interlock)?;
        let unloaded = running.unload(|unloading| {
            let _reload = interlock.reload_scope();
            if take(&mut self.reloads_last) {
                reloading.owe_since(seen);
            }
            let (completers, failures) = (&mut self.reload_completers, &mut self.failed.failures);
            alone(reloading, unloading, interlock.world(), completers, failures)
        });
        unloaded.map_err(|refused| Failure::new(Stage::Unload, refused))?
    }
    async fn unload_async(
        &mut self,
        reloading: &Reloading,
        alone: Alone,
        then: Then,
    ) -> Result<(), Over> {
        let (scope, place) = (self.scope(), self.failed.place());
        let seen = reloading.reloads();
        self.ends_since = (then == Then::Ends).then_some(seen);
        let interlock = self.executor.interlock().filter(|_| !self.inside).ok_or_else(no_share);
        let interlock = self.failed.at(place, interlock)?;
        let unloading = unloading_async(&mut self.running, interlock).await;
        let mut unloading = self.failed.at(place, unloading)?;
        let last = take(&mut self.reloads_last);
        let reloaded = {
            let _here = (scope.enter(), unloading.scope().enter(), interlock.reload_scope());
            if last {
                reloading.owe_since(seen);
            }
            let (completers, failures) = (&mut self.reload_completers, &mut self.failed.failures);
            let world = interlock.world();
            alone(reloading, &mut unloading.unloading(), world, completers, failures)
        };
        let reloaded = self.failed.at(place, reloaded);
        // If the future is dropped from here on, the execution goes on and may load: that must be unloaded, too.
        self.reloads_last = last && then == Then::BeginsAnew;
        unloading.finish().await;
        self.reloads_last = false;
        reloaded
    }
}

async fn unloading_async<'e>(
    running: &'e mut Option<Running<'_>>,
    interlock: &Interlock,
) -> Result<UnloadingGuard<'e>, Failure> {
    let unloading = own(running, interlock)?.unload_async().await;
    unloading.map_err(|refused| Failure::new(Stage::Unload, refused))
}

/// Returns the share, unless the execution's owner has swapped it for a share of another interlock.
fn own<'e, 'scope>(
    running: &'e mut Option<Running<'scope>>,
    interlock: &Interlock,
) -> Result<&'e mut Running<'scope>, Failure> {
    running.as_mut().filter(|running| running.is_of(interlock)).ok_or_else(no_share)
}

fn no_share() -> Failure {
    Failure::new(Stage::Unload, ReloadRefused::InsideExecution)
}
