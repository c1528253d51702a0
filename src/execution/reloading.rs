//! What a reload does, in which order, and under what.
//!
//! | on change | always |
//! |---|---|
//! | the executor's run | the executor's run |
//! | *to unload:* before, unload, after (in reverse), run, prepare | run, prepare |
//! | body | body |
//! | complete | *to unload:* before, unload, after (in reverse), complete |
//! | the executor's complete | the executor's complete |
//!
//! *To unload* means: while the interlock is held to unload, so that nobody else runs.
//!
//! # One change, one reload
//! Whoever finds a change notes it, while it runs, and then waits to unload. Whoever gets there
//! first takes the note up; those behind find nothing to be done. What changes from then on is a
//! new note, and a new reload.
//!
//! # Nothing is half reloaded in silence
//! A reload begins by saying that the world is half reloaded, and ends by taking that back. If
//! anything between fails, it stays said: the execution fails without its body, every execution
//! without a reloader is refused, and the next with one reloads before anything else, whatever the
//! check says.
//!
//! It stays said when the reloader is gone: the next that is made for the interlock reloads before its
//! first body, by its own steps. A change that was noted and not taken up is left to it, too.
//!
//! A reload of another execution may fail between this one's and its body, for it lets those go first that
//! wait to unload. So the world is looked at once more when the share is back: from there on it stays as
//! it is.
//!
//! All this is said in plain atomics: they are written by who holds the interlock to unload, or
//! before who holds it could, and read by those that run. The interlock puts them in order.

use super::changes::Changes;
use super::error::{BoxError, Failure, Stage};
use super::hooks::{Completers, Hooks, stage};
use super::interlock::{Reloads, Unloading, World};
use super::preparing::Preparing;
use crate::user_code::UserValue;

/// One thing to be done.
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
    /// It is disabled.
    Never,
}

/// What is done, by stages.
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
    /// Unless it is disabled. Given back last.
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
    /// Whether it reloads after its body.
    pub(crate) fn is_last(&self) -> bool {
        self.when == When::Always
    }
    /// Whether its executions reload what is half reloaded.
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
    /// A reload was asked for. By who runs: noted beside one that unloads, it would reload once more between
    /// that one's reload and its body.
    pub(crate) fn ask(&self) {
        if self.when == When::OnChange {
            self.changes.note();
        }
    }
    /// There is something to be reloaded, by whoever comes to it.
    pub(crate) fn owe(&self) {
        self.changes.note();
    }
    /// How many reloads have begun. Asked by who runs.
    pub(crate) fn reloads(&self) -> usize {
        self.changes.taken_up()
    }
    /// The same by who has run when there were so many, and has loaded nothing since. If there was another
    /// reload meanwhile, that has unloaded for this one, too.
    pub(crate) fn owe_since(&self, reloads: usize) {
        if self.reloads() == reloads {
            self.owe();
        }
    }

    /// Before the body, alone. With [`When::Always`] this is what a former execution has left.
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

    /// Before the body, beside others, if it reloads after the body.
    pub(crate) fn begin_shared(
        &self,
        preparing: &mut Preparing<'_>,
        completers: &mut Completers,
    ) -> Result<(), Failure> {
        self.steps.hooks.run(completers)?;
        self.prepare(preparing)
    }

    /// After the body, alone. Whatever fails, everything is completed.
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

    /// Reloads, if nobody else has meanwhile.
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
    /// The same from this step on; `next` is then the one that has failed.
    pub(crate) fn prepare_from(
        &self,
        next: &mut usize,
        preparing: &mut Preparing<'_>,
    ) -> Result<(), Failure> {
        while self.prepare_one(next, preparing)? {}
        Ok(())
    }
    /// This step. False if there is none.
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
