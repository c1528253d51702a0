//! The steps of a reload, their order, and when the interlock is held.
//!
//! | on change | always |
//! |---|---|
//! | the executor's run | the executor's run |
//! | *to unload:* before, unload, after (in reverse), run, prepare | run, *to load:* prepare |
//! | body | body |
//! | complete | *to unload:* before, unload, after (in reverse), complete |
//! | the executor's complete | the executor's complete |
//!
//! *To unload* and *to load* mean: while the interlock is held, so that no other owner runs.
//!
//! # One change, one reload
//! An execution that finds a change marks it as pending, and then waits to unload. The first execution to unload clears
//! the mark and reloads. The others find no mark, and do not reload. A later change is marked again, and reloaded.
//!
//! # A failed reload
//! [`Reloader`](super::Reloader) says when it is tried again. The interlock keeps the failure, which outlives the
//! reloader: the next one of the interlock reloads first.

use super::ambient::Frame;
use super::changes::Changes;
use super::error::{BoxError, Failure, Refused, Stage};
use super::hooks::{Completers, Hooks, stage};
use super::interlock::{Caller, Interlock, Loading, Purpose, Running, Unloading};
use crate::kernel::clock::Time;
use crate::kernel::user_code::UserValue;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One step.
pub(crate) type Action = UserValue<Box<dyn Fn() -> Result<(), BoxError> + Send + Sync>>;
pub(crate) type Unload =
    UserValue<Box<dyn Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync>>;
pub(crate) type Prepare =
    UserValue<Box<dyn Fn(&mut Loading<'_>) -> Result<(), BoxError> + Send + Sync>>;

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

/// The pauses before a failed reload is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct Reloading {
    pub(crate) when: When,
    pub(crate) changes: Changes,
    pub(crate) steps: Steps,
    /// Absent if reloading is disabled.
    pub(crate) right: Option<Right>,
}

/// The right to reload what an interlock guards.
///
/// One reloader has it at a time: a second one would take the failures of the first for its own.
pub(crate) struct Right {
    interlock: Interlock,
    /// The length and the end of the pause after the last reload, if this reloader has failed.
    pause: Mutex<Option<(Duration, Time)>>,
}

impl Right {
    /// Returns `None` if another reloader has the right.
    pub(crate) fn take(interlock: &Interlock) -> Option<Self> {
        let is_free = interlock.reload_state().take_right();
        is_free.then(|| Right { interlock: interlock.clone(), pause: Mutex::new(None) })
    }
    fn may_retry(&self) -> bool {
        let pause = *self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        pause.is_none_or(|(_, end)| end <= self.interlock.clock().now())
    }
    /// Notes the end of a reload. The caller still holds to unload. A retry without a new change doubles the pause.
    fn ended(&self, result: &Result<(), Failure>, is_retry: bool) {
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let former = pause.filter(|_| is_retry);
        *pause = result.as_ref().err().map(|_| {
            let length = former.map_or(FIRST_PAUSE, |(length, _)| (2 * length).min(LAST_PAUSE));
            (length, self.interlock.clock().now().plus(length))
        });
        self.interlock.reload_state().ended(result.as_ref().err().cloned());
    }
}

impl Drop for Right {
    fn drop(&mut self) {
        self.interlock.reload_state().give_right_back();
    }
}

/// Returns the refusal of an execution, if the last reload of the interlock has failed.
pub(crate) fn reload_failed(interlock: &Interlock) -> Option<Refused> {
    interlock.reload_state().failure().map(Refused::ReloadFailed)
}

impl Reloading {
    /// Checks, and returns whether an execution reloads before its body. The caller runs.
    ///
    /// # Errors
    /// The last reload has failed, and its pause has not passed; or the check fails.
    pub(crate) fn is_due(&self) -> Result<bool, Failure> {
        if self.when == When::OnChange {
            self.changes.look()?;
        }
        Ok(self.changes.are_pending() || self.is_retry_due()?)
    }
    /// Whether a failed reload is tried again.
    pub(crate) fn is_retry_due(&self) -> Result<bool, Failure> {
        let Some(right) = &self.right else { return Ok(false) };
        match reload_failed(&right.interlock) {
            Some(refused) if !right.may_retry() => Err(Failure::new(Stage::Enter, refused)),
            refused => Ok(refused.is_some()),
        }
    }

    /// Reloads, and returns true, unless another owner has reloaded meanwhile. The caller holds to unload.
    pub(crate) fn reload(
        &self,
        unloading: &mut Unloading<'_>,
        completers: &mut Completers,
    ) -> Result<bool, Failure> {
        let is_new = self.changes.are_pending();
        let Some(right) = self.right.as_ref() else { return Ok(false) };
        if !is_new && !self.is_retry_due()? {
            return Ok(false);
        }
        self.changes.take_up()?;
        let reloaded = self.run_steps(unloading, completers);
        self.changes.ended(reloaded.is_ok());
        right.ended(&reloaded, !is_new);
        reloaded.map(|()| true)
    }
    fn run_steps(
        &self,
        unloading: &mut Unloading<'_>,
        completers: &mut Completers,
    ) -> Result<(), Failure> {
        for before in &self.steps.before {
            stage(Stage::BeforeUnload, &**before)?;
        }
        for unload in &self.steps.unload {
            stage(Stage::Unload, || unload(unloading))?;
        }
        for after in self.steps.after.iter().rev() {
            stage(Stage::AfterUnload, || after(unloading))?;
        }
        if self.when == When::OnChange {
            self.steps.hooks.run(completers)?;
            unloading.load(|loading| self.prepare(loading))?;
        }
        Ok(())
    }

    pub(crate) fn prepare(&self, loading: &mut Loading<'_>) -> Result<(), Failure> {
        self.steps.prepare.iter().try_for_each(|prepare| stage(Stage::Prepare, || prepare(loading)))
    }
    /// Waits until no other owner runs, and prepares.
    pub(crate) async fn prepare_by(
        &self,
        running: &mut Running<'_>,
        frame: Frame,
        caller: Caller,
    ) -> Result<(), Failure> {
        if self.steps.prepare.is_empty() {
            return Ok(());
        }
        let refused = |error| Failure::new(Stage::Prepare, error);
        let mut held = running.hold(Purpose::Load, caller).await.map_err(refused)?;
        {
            let _here = (frame.enter(), held.frame().enter());
            self.prepare(&mut held.loading())?;
        }
        held.finish(true, caller).await.map_err(refused)
    }
}
