//! Telling a reloader what to reload, and when.

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

/// A reloader that is being told what to reload, and when.
#[must_use]
pub struct ReloaderBuilder {
    pub(crate) executor: Executor,
    pub(crate) check: Check,
    pub(crate) steps: Steps,
    pub(crate) when: When,
}

#[allow(
    clippy::wrong_self_convention,
    reason = "`to_run` and `to_complete` are the source's names"
)]
impl ReloaderBuilder {
    /// How to find out whether something has changed: asked before each body. An answer of `true`
    /// is kept until a reload takes it up. So it may be one that is given only once, like an event
    /// that is consumed; one that goes on being given has to be ended by the reload itself, or
    /// every execution reloads.
    pub fn check(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.check = Check::Ask(UserValue::new(Box::new(check)));
        self
    }
    /// The same, by comparison: something has changed if the version is not the one that there was
    /// before the last reload (or when this was called). A time, a checksum, a list of them.
    ///
    /// A panic of `version` is a failed check of the execution that it is called for; one that it has when this
    /// is called, of the first. There is nothing to compare with then, so the next reloads. A reloader that
    /// [always](Self::always) reloads, or is disabled, checks nothing.
    pub fn watch<V: PartialEq + Send + Sync + 'static>(
        mut self,
        version: impl Fn() -> V + Send + Sync + 'static,
    ) -> Self {
        self.check = Check::Watch(UserValue::new(Box::new(Watched::new(version))));
        self
    }
    /// Reloads after each body, without asking, instead of before it.
    pub fn always(mut self) -> Self {
        self.when = When::Always;
        self
    }
    /// With `false`, never reloads: every execution is one of the executor's, and entering costs
    /// nothing but that.
    pub fn enabled(mut self, enabled: bool) -> Self {
        if !enabled {
            self.when = When::Never;
        }
        self
    }

    /// Adds what is called before unloading, after those there are.
    pub fn before_unload(
        mut self,
        before: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.before.push(UserValue::new(Box::new(before)));
        self
    }
    /// Adds what unloads, after those there are. Nobody else runs meanwhile.
    pub fn unload(
        mut self,
        unload: impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.unload.push(UserValue::new(Box::new(unload)));
        self
    }
    /// Adds what is called after unloading, before those there are. It may [load](Unloading::load).
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
    /// Adds a hook that has nothing to complete.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds what is called at the end of each execution that reloads, even if a run has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.hooks.push_complete(complete);
        self
    }
    /// Adds what prepares the world after unloading, and when the program starts
    /// ([`Reloader::prepare`]), after those there are. It may [load](Preparing::load).
    pub fn to_prepare(
        mut self,
        prepare: impl Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.push(UserValue::new(Box::new(prepare)));
        self
    }
    /// Adds what prepares the world before those there are.
    pub fn to_prepare_first(
        mut self,
        prepare: impl Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.insert(0, UserValue::new(Box::new(prepare)));
        self
    }

    /// The reloader.
    ///
    /// # Errors
    /// The executor has no interlock, or that has a reloader, of which a clone or an execution is left. A
    /// disabled one needs neither.
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

/// Why a reloader could not be built, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReloaderError {
    /// Nothing keeps the executor's executions from running while something is unloaded.
    NoInterlock,
    /// Executions under the executor's interlock could not tell the one's failed reload from the other's. Once
    /// all clones of the other one are dropped, and its executions are over, there may be another.
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
