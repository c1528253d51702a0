//! Reloaders that note their stages.

use crate::common::log::{Log, reporting};
use cabrank::ManualClock;
use cabrank::execution::interlock::{Loading, Unloading};
use cabrank::execution::{BoxError, Interlock, Reloader, ReloaderBuilder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Returns an interlock on a manual clock.
pub(crate) fn on(time: &ManualClock) -> Interlock {
    Interlock::builder().clock(time.clock()).build()
}

/// Returns a reloader that notes every stage, over an executor that notes its hooks and reports.
pub(crate) fn noting(log: &Log) -> ReloaderBuilder {
    let executor = reporting(log)
        .interlock(Interlock::new())
        .to_run(log.noting("executor run"))
        .to_complete(log.noting("executor complete"))
        .build();
    let unload = log.noting("unload");
    Reloader::builder(executor)
        .to_run(log.noting("run"))
        .to_complete(log.noting("complete"))
        .before_unload(log.noting("before"))
        .unload(move |_| unload())
        .after_unload(unloading(log.noting("after")))
        .to_prepare(preparing(log.noting("prepare")))
}

/// An unload step without effect.
pub(crate) fn unloading(
    step: impl Step,
) -> impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync {
    move |_| step()
}
/// A prepare step without effect.
pub(crate) fn preparing(
    step: impl Step,
) -> impl Fn(&mut Loading<'_>) -> Result<(), BoxError> + Send + Sync {
    move |_| step()
}
pub(crate) trait Step: Fn() -> Result<(), BoxError> + Send + Sync + 'static {}
impl<F: Fn() -> Result<(), BoxError> + Send + Sync + 'static> Step for F {}

/// Reports a change once, each time the flag is set.
pub(crate) fn once(changed: &Arc<AtomicBool>) -> impl Fn() -> bool + Send + Sync + use<> {
    let changed = changed.clone();
    move || changed.swap(false, SeqCst)
}

pub(crate) const RELOAD: [&str; 6] =
    ["executor run", "before", "unload", "after", "run", "prepare"];
pub(crate) const ENDS: [&str; 2] = ["complete", "executor complete"];
pub(crate) const ALWAYS: [&str; 9] = [
    "executor run",
    "run",
    "prepare",
    "body",
    "before",
    "unload",
    "after",
    "complete",
    "executor complete",
];
