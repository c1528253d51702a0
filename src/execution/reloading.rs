//! The steps of a reload, their order, and when the interlock is held.
//!
//! | on change | always |
//! |---|---|
//! | the executor's run | the executor's run |
//! | *to unload:* before, unload, after (in reverse), run, prepare | run, prepare |
//! | body | body |
//! | complete | *to unload:* before, unload, after (in reverse), complete |
//! | the executor's complete | the executor's complete |
//!
//! *To unload* means: while the interlock is held to unload, so that no other owner runs.
//!
//! # One change, one reload
//! An execution that finds a change notes it while it runs, and then waits to unload. The first to unload takes the
//! note up; those behind it have no reload left to make. A later change is a new note, and a new reload.
//!
//! # No world is half reloaded in silence
//! A reload begins by marking the world as half reloaded, and ends by clearing the mark. If a step between fails, the
//! mark stays. The execution fails without its body. Every execution without a reloader is refused, and the next one
//! with a reloader reloads first, whatever the check returns.
//!
//! The mark outlives the reloader: the next reloader of the interlock reloads before its first body, by its own
//! steps. It also inherits a change that was noted and not taken up.
//!
//! After its unload, a reload lets others go first that wait to unload. Such a reload may fail before this
//! execution's body begins. The execution therefore looks at the world once more when its share is back: from then on
//! the world stays as it is.
//!
//! These marks and notes are plain atomics. An owner that holds the interlock to unload writes them, or one that runs
//! before it could; running executions read them. The interlock orders these accesses.

use super::changes::Changes;
use super::error::{BoxError, Failure, Stage};
use super::hooks::{Completers, Hooks, stage};
use super::interlock::{Reloads, Unloading, World};
use super::preparing::Preparing;
use crate::user_code::UserValue;

/// One step.
pub(crate) type Action = UserValue<Box<dyn Fn() -> Result<(), BoxError> + Send + Sync>>;
pub(crate) type Unload =
    UserValue<Box<dyn Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync>>;
pub(crate) type Prepare =
    UserValue<Box<dyn Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync>>;

/// When a reload is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Before the body, if something has changed.
    OnChange,
    /// After each body.
    Always,
    /// Never: reloading is disabled.
    Never,
}

/// The steps, by stage.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) before: Vec<Action>,
    pub(crate) unload: Vec<Unload>,
    pub(crate) after: Vec<Unload>,
    pub(crate) hooks: Hooks,
    pub(crate) prepare: Vec<Prepare>,
}

pub(crate) struct Reloading {
    pub(crate) when: When,
    pub(crate) changes: Changes,
    pub(crate) steps: Steps,
    /// The right to reload; absent if reloading is disabled. It is given back last.
    pub(crate) right: Option<Reloads>,
}

impl Drop for Reloading {
    fn drop(&mut self) {
        if let Some(right) = self.right.as_ref().filter(|_| self.changes.are_pending()) {
            right.leave_change();
        }
    }
}

impl Reloading {
    /// Whether an execution that begins here, and runs, reloads before its body.
    pub(crate) fn is_due_first(&self) -> Result<bool, Failure> {
        self.changes.look()
    }
    /// Whether an execution reloads after its body.
    pub(crate) fn is_last(&self) -> bool {
        self.when == When::Always
    }
    /// Whether executions reload a half reloaded world.
    pub(crate) fn is_enabled(&self) -> bool {
        self.when != When::Never
    }
    /// Whether an execution inside another would have to reload.
    pub(crate) fn is_due(&self) -> Result<bool, Failure> {
        match self.when {
            When::OnChange => self.changes.look(),
            When::Always => Ok(true),
            When::Never => Ok(false),
        }
    }
    /// Requests a reload. Called by an execution that has its share. Beside an unload, the request would cause one
    /// more reload between the unloading owner's reload and its body.
    pub(crate) fn ask(&self) {
        if self.when == When::OnChange {
            self.changes.note();
        }
    }
    /// Leaves a reload to the next execution.
    pub(crate) fn owe(&self) {
        self.changes.note();
    }
    /// Returns the number of reloads that have begun. Called by an execution that runs.
    pub(crate) fn reloads(&self) -> usize {
        self.changes.taken_up()
    }
    /// Leaves a reload to the next execution, unless another one has begun since there were `reloads`. The caller has
    /// loaded no code since then, so that other reload has unloaded for it, too.
    pub(crate) fn owe_since(&self, reloads: usize) {
        if self.reloads() == reloads {
            self.owe();
        }
    }

    /// Reloads before the body, alone. With [`When::Always`] a former execution has left this reload.
    pub(crate) fn reload_first(
        &self,
        unloading: &mut Unloading<'_>,
        world: &World,
        completers: &mut Completers,
        _: &mut Vec<Failure>,
    ) -> Result<(), Failure> {
        self.reload(unloading, world, |unloading| match self.when {
            When::OnChange => {
                self.steps.hooks.run(completers)?;
                self.prepare(&mut Preparing::new(Some(unloading)))
            }
            When::Always | When::Never => Ok(()),
        })
    }

    /// Prepares before the body, beside others, if the reload comes after the body.
    pub(crate) fn begin_shared(
        &self,
        preparing: &mut Preparing<'_>,
        completers: &mut Completers,
    ) -> Result<(), Failure> {
        self.steps.hooks.run(completers)?;
        self.prepare(preparing)
    }

    /// Reloads after the body, alone. Completes every hook, even if a step fails.
    pub(crate) fn reload_last(
        &self,
        unloading: &mut Unloading<'_>,
        world: &World,
        completers: &mut Completers,
        failures: &mut Vec<Failure>,
    ) -> Result<(), Failure> {
        let reloaded = self.reload(unloading, world, |_| Ok(()));
        completers.complete(failures);
        reloaded
    }

    /// Reloads, unless another owner has done so meanwhile.
    fn reload(
        &self,
        unloading: &mut Unloading<'_>,
        world: &World,
        load: impl FnOnce(&mut Unloading<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !self.changes.take_up(world.is_half_reloaded())? {
            return Ok(());
        }
        world.begin_reload();
        for before in &self.steps.before {
            stage(Stage::BeforeUnload, &**before)?;
        }
        for unload in &self.steps.unload {
            stage(Stage::Unload, || unload(unloading))?;
        }
        for after in self.steps.after.iter().rev() {
            stage(Stage::AfterUnload, || after(unloading))?;
        }
        load(unloading)?;
        world.end_reload();
        Ok(())
    }

    pub(crate) fn prepare(&self, preparing: &mut Preparing<'_>) -> Result<(), Failure> {
        self.prepare_from(&mut 0, preparing)
    }
    /// Prepares from step `next` on; afterwards `next` is the step that failed.
    pub(crate) fn prepare_from(
        &self,
        next: &mut usize,
        preparing: &mut Preparing<'_>,
    ) -> Result<(), Failure> {
        while self.prepare_one(next, preparing)? {}
        Ok(())
    }
    /// Runs one step. Returns false after the last one.
    pub(crate) fn prepare_one(
        &self,
        next: &mut usize,
        preparing: &mut Preparing<'_>,
    ) -> Result<bool, Failure> {
        let Some(prepare) = self.steps.prepare.get(*next) else { return Ok(false) };
        stage(Stage::Prepare, || prepare(preparing))?;
        *next += 1;
        Ok(true)
    }
}
