//! Configures what a reloader reloads, and when.

use super::changes::{Changes, Check, Watched};
use super::error::BoxError;
use super::executor::Executor;
use super::hooks::Hook;
use super::interlock::{Reloads, Unloading};
use super::preparing::Preparing;
use super::reloader::Reloader;
use super::reloading::{Reloading, Steps, When};
use crate::user_code::UserValue;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Builds a reloader.
#[must_use]
pub struct ReloaderBuilder {
    pub(crate) executor: Executor,
    pub(crate) check: Check,
    pub(crate) steps: Steps,
    pub(crate) when: When,
}

#[allow(clippy::wrong_self_convention, reason = "`to_run` and `to_complete` are Rails' names")]
impl ReloaderBuilder {
    /// Sets the check for changes, which is made before each body.
    ///
    /// A result of `true` is kept until a reload takes it up. The check may therefore return it only once, like an
    /// event that is consumed. If it returns `true` until something ends that, the reload itself must end it:
    /// otherwise every execution reloads.
    pub fn check(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.check = Check::Ask(UserValue::new(Box::new(check)));
        self
    }
    /// Sets a version to compare, for example a time, a checksum, or a list of them. There is a change if it differs
    /// from the version before the last reload (or when this was called).
    ///
    /// A panic of `version` fails the check of the execution that called it. A panic within this call fails the first
    /// check; the next one reloads, because it has no version to compare with. A reloader that [always](Self::always)
    /// reloads, or is disabled, never checks.
    pub fn watch<V: PartialEq + Send + Sync + 'static>(
        mut self,
        version: impl Fn() -> V + Send + Sync + 'static,
    ) -> Self {
        self.check = Check::Watch(UserValue::new(Box::new(Watched::new(version))));
        self
    }
    /// Reloads after each body, without a check, instead of before it.
    pub fn always(mut self) -> Self {
        self.when = When::Always;
        self
    }
    /// With `false`, disables reloading: every execution is an ordinary one of the executor, at no further cost.
    pub fn enabled(mut self, enabled: bool) -> Self {
        if !enabled {
            self.when = When::Never;
        }
        self
    }

    /// Adds a step before unloading, after the others.
    pub fn before_unload(
        mut self,
        before: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.before.push(UserValue::new(Box::new(before)));
        self
    }
    /// Adds an unload step, after the others. No other owner runs meanwhile.
    pub fn unload(
        mut self,
        unload: impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.unload.push(UserValue::new(Box::new(unload)));
        self
    }
    /// Adds a step after unloading, before the others. It may [load](Unloading::load).
    pub fn after_unload(
        mut self,
        after: impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.after.push(UserValue::new(Box::new(after)));
        self
    }
    /// Adds a hook of executions that reload, inside the executor's hooks.
    pub fn hook(mut self, hook: impl Hook) -> Self {
        self.steps.hooks.push(hook);
        self
    }
    /// Adds a hook with a run half only.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds a hook with a complete half only. It is called at the end of each execution that reloads, even if a run
    /// has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.hooks.push_complete(complete);
        self
    }
    /// Adds a preparation, after the others. It is called after unloading, and by [`Reloader::prepare`] when the
    /// program starts. It may [load](Preparing::load).
    pub fn to_prepare(
        mut self,
        prepare: impl Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.push(UserValue::new(Box::new(prepare)));
        self
    }
    /// Adds a preparation, before the others.
    pub fn to_prepare_first(
        mut self,
        prepare: impl Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.insert(0, UserValue::new(Box::new(prepare)));
        self
    }

    /// Returns the reloader.
    ///
    /// # Errors
    /// The executor has no interlock, or another reloader of that interlock has a clone or an execution left. A
    /// disabled reloader needs neither.
    pub fn build(self) -> Result<Reloader, ReloaderError> {
        let ReloaderBuilder { executor, check, steps, when } = self;
        let mut right = None;
        if when != When::Never {
            let Some(interlock) = executor.interlock() else {
                return Err(ReloaderError::NoInterlock);
            };
            right = Some(Reloads::take(interlock).ok_or(ReloaderError::SecondReloader)?);
        }
        let check = match when {
            When::OnChange => check,
            When::Always | When::Never => Check::OnRequest,
        };
        let changes = Changes::new(check, right.as_ref().is_some_and(Reloads::take_change));
        let reloading = Reloading { when, changes, steps, right };
        Ok(Reloader::new(executor, Arc::new(reloading)))
    }
}

impl fmt::Debug for ReloaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloaderBuilder").field("when", &self.when).finish_non_exhaustive()
    }
}

/// Why a reloader could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloaderError {
    /// The executor has no interlock, so its executions could run during an unload.
    NoInterlock,
    /// The executor's interlock has a reloader already: executions could not tell their failed reloads apart.
    ///
    /// Another reloader may be built once all clones of the first are dropped and its executions have ended.
    SecondReloader,
}

impl fmt::Display for ReloaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReloaderError::NoInterlock => {
                "the executor has no interlock: give it one with ExecutorBuilder::interlock"
            }
            ReloaderError::SecondReloader => {
                "the executor's interlock has a reloader already: clone that, or make another interlock"
            }
        })
    }
}

impl Error for ReloaderError {}
