//! The lines that the log has for the pool's events.

use cabrank::application_pool::{DetachReason, Event, RestartMode, SpawnError};
use cabrank_spawner::BootError;
use cabrank_spawner::chain::Chain;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Returns an observer of the pool that logs its events.
pub(crate) fn log() -> impl Fn(&Event) {
    let booted = AtomicBool::new(false);
    let last_failure = Mutex::default();
    move |event| match event {
        // `start` itself reports that the first process did not boot.
        Event::SpawnFailed { .. } if !booted.load(Ordering::Relaxed) => {}
        Event::Spawned { group, pid, .. } => {
            booted.store(true, Ordering::Relaxed);
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

/// Logs how a process was started that did not become ready, unless the last one failed in the same way.
fn log_start(error: &SpawnError, last: &Mutex<Option<String>>) {
    let Some(boot) = error.cause().downcast_ref::<BootError>() else { return };
    let error = boot.to_string();
    let known = last.lock().unwrap_or_else(PoisonError::into_inner).replace(error.clone());
    if known != Some(error)
        && let Some(explanation) = &boot.explanation
    {
        tracing::info!("the process that did not become ready: {}", explanation.start_line());
    }
}
