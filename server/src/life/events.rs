//! The lines that the log has for the pool's events.

use cabrank::application_pool::{DetachReason, Event, RestartMode, SpawnError};
use cabrank_spawner::BootError;
use cabrank_spawner::chain::Chain;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns an observer of the pool that logs its events.
pub(crate) fn log() -> impl Fn(&Event) {
    // The groups that have had a process.
    let booted = Mutex::new(HashSet::new());
    let last_failure = Mutex::default();
    move |event| match event {
        // `start` itself reports that the first process did not boot.
        Event::SpawnFailed { group, .. } if !lock(&booted).contains(group) => {}
        Event::Spawned { group, pid, .. } => {
            lock(&booted).insert(group.clone());
            tracing::info!(pid, "{group}: process {} is ready", pid.unwrap_or(0));
        }
        Event::SpawnFailed { group, error, retry_in, .. } => {
            tracing::error!(
                "{group}: {} (next attempt in {:.1} s at the earliest)",
                Chain(error),
                retry_in.as_secs_f64()
            );
            log_start(error, &last_failure);
        }
        Event::Detached { group, pid, reason: DetachReason::Failed, .. } => {
            tracing::warn!(
                pid,
                "{group}: process {} has failed and gets no more requests",
                pid.unwrap_or(0)
            );
        }
        Event::Detached { group, pid, reason, .. } => {
            tracing::info!(pid, "{group}: process {} is leaving: {reason}", pid.unwrap_or(0));
        }
        Event::Restarting { group, mode: RestartMode::Rolling, .. } => {
            tracing::info!("{group}: restarting, one process after the other");
        }
        Event::Restarting { group, .. } => {
            tracing::info!("{group}: restarting, all processes at once");
        }
        _ => {}
    }
}

/// Locks what the observer has noted. Code under these locks does not panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Logs how a process was started that did not become ready, unless the last one failed in the same way.
fn log_start(error: &SpawnError, last: &Mutex<Option<String>>) {
    let Some(boot) = error.cause().downcast_ref::<BootError>() else { return };
    let error = boot.to_string();
    let known = lock(last).replace(error.clone());
    if known != Some(error)
        && let Some(explanation) = &boot.explanation
    {
        tracing::error!("the process that did not become ready: {}", explanation.start_line());
    }
}
