//! Configures what a reloader reloads, and when.

use super::changes::{Changes, Check, Watched};
use super::error::{BoxError, Refused};
use super::executor::Executor;
use super::hooks::Hook;
use super::interlock::{Loading, Unloading};
use super::reloader::Reloader;
use super::reloading::{Reloading, Right, Steps, When};
use super::watch_files::Files;
use crate::user_code::UserValue;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Builds a reloader.
#[must_use]
pub struct ReloaderBuilder {
    pub(crate) executor: Executor,
    pub(crate) check: Check,
    pub(crate) steps: Steps,
    pub(crate) when: When,
    pub(crate) acquire_timeout: Option<Option<Duration>>,
    pub(crate) is_enabled: bool,
}

#[allow(clippy::wrong_self_convention, reason = "`to_run` and `to_complete` are Rails' names")]
impl ReloaderBuilder {
    /// Sets the check for changes, which is made before each body. The last of `check`, [`watch`](Self::watch) and
    /// [`watch_files`](Self::watch_files) counts.
    ///
    /// A result of `true` is kept until a reload takes it up, so the check may return it only once. If it goes on
    /// returning `true`, every execution reloads.
    pub fn check(mut self, check: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.check = Check::Ask(UserValue::new(Box::new(check)));
        self
    }
    /// Sets a version to compare, for example a checksum, or a counter. There is a change if it differs from the
    /// version before the last reload (or when this was called). For files, use [`watch_files`](Self::watch_files).
    ///
    /// A panic of `version` fails the execution that called it. If it panics in this call, the first execution reloads.
    pub fn watch<V: PartialEq + Send + Sync + 'static>(
        mut self,
        version: impl Fn() -> V + Send + Sync + 'static,
    ) -> Self {
        self.check = Check::Watch(UserValue::new(Box::new(Watched::new(version))));
        self
    }
    /// Watches these files, and the files below these directories; links to directories below them are not followed.
    /// There is a change if a file was added, removed or
    /// edited since the last reload (or since this was called).
    ///
    /// An edit changes a file's times, length or identity. While a file is younger than 2 seconds, the coarsest
    /// granule of such times, its contents count as well. So no edit is lost, unless the system's clock is set back.
    /// Each check looks each file up, and reads the files that were edited within the last seconds.
    pub fn watch_files<P: Into<PathBuf>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        let files = Files::new(paths.into_iter().map(Into::into).collect());
        self.check = Check::Watch(UserValue::new(Box::new(files)));
        self
    }
    /// Reloads after each body, without a check, instead of before it. Each execution waits for the others, first to
    /// prepare and then to unload. Inside an execution of another executor, it is refused before its body.
    pub fn always(mut self) -> Self {
        self.when = When::Always;
        self
    }
    /// With `false`, disables reloading: every execution is an ordinary one of the executor.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.is_enabled = enabled;
        self
    }
    /// Limits each wait of an execution of this reloader, as [`ExecutorBuilder::acquire_timeout`] does.
    ///
    /// [`ExecutorBuilder::acquire_timeout`]: super::ExecutorBuilder::acquire_timeout
    pub fn acquire_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = Some(timeout.into());
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
        self.steps.hooks.push(hook, false);
        self
    }
    /// Adds a hook with a run half only.
    pub fn to_run(self, run: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static) -> Self {
        self.hook((run, |()| Ok(())))
    }
    /// Adds a hook with a complete half only. It is also called if a run has failed.
    pub fn to_complete(
        mut self,
        complete: impl Fn() -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.hooks.push((|| Ok(()), move |()| complete()), true);
        self
    }
    /// Adds a preparation, after the others: it loads. It is called after unloading, while no other owner runs, and by
    /// [`Reloader::prepare`] when the program starts.
    pub fn to_prepare(
        mut self,
        prepare: impl Fn(&mut Loading<'_>) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        self.steps.prepare.push(UserValue::new(Box::new(prepare)));
        self
    }
    /// Returns the reloader.
    ///
    /// # Errors
    /// [`Refused::NoInterlock`] or [`Refused::SecondReloader`], unless reloading is disabled.
    pub fn build(self) -> Result<Reloader, Refused> {
        let ReloaderBuilder { executor, check, steps, when, acquire_timeout, is_enabled } = self;
        let when = if is_enabled { when } else { When::Never };
        let right = match (when, executor.interlock()) {
            (When::Never, _) => None,
            (_, None) => return Err(Refused::NoInterlock),
            (_, Some(interlock)) => Some(Right::take(interlock).ok_or(Refused::SecondReloader)?),
        };
        let reloading = Reloading { when, changes: Changes::new(check), steps, right };
        Ok(Reloader::new(executor.with_acquire_timeout(acquire_timeout), Arc::new(reloading)))
    }
}

impl fmt::Debug for ReloaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReloaderBuilder").field("when", &self.when).finish_non_exhaustive()
    }
}
