//! Events of a named pool at the debug level, by the crate `tracing`. The module's head describes them.

use crate::resource_pool::api::event::Event;
use std::fmt;
use std::time::Duration;
use tracing::debug;

/// The target of all events.
const TARGET: &str = "cabrank::resource_pool";

pub(crate) fn lent(pool: &str, after: Duration) {
    debug!(target: TARGET, pool, ?after, "lent");
}
pub(crate) fn not_lent(pool: &str, reason: &str) {
    debug!(target: TARGET, pool, reason, "not lent");
}
pub(crate) fn returned(pool: &str, lent_for: Duration) {
    debug!(target: TARGET, pool, ?lent_for, "returned");
}
pub(crate) fn created(pool: &str, outcome: &str, took: Duration) {
    debug!(target: TARGET, pool, outcome, ?took, "creation ended");
}
pub(crate) fn destroyed(pool: &str) {
    debug!(target: TARGET, pool, "destroyed");
}
pub(crate) fn reported<E: fmt::Display>(pool: &str, kind: &str, event: &Event<E>) {
    match event {
        Event::Abandoned { id, lent_for, removed, label, borrowed_at } => {
            let label = label.as_deref();
            debug!(target: TARGET, pool, event = kind, id, ?lent_for, removed, label, %borrowed_at, "reported");
        }
        Event::ValidatePanicked(why)
        | Event::DestroyPanicked(why)
        | Event::MaintenanceNotStarted(why) => {
            debug!(target: TARGET, pool, event = kind, why, "reported");
        }
        Event::CreateFailed(failure)
        | Event::ActivateFailed(failure)
        | Event::PassivateFailed(failure) => {
            let why = failure.to_string();
            debug!(target: TARGET, pool, event = kind, why, "reported");
        }
        Event::Invalid | Event::ValidateTimedOut | Event::DestroyTimedOut | Event::RuntimeEnded => {
            debug!(target: TARGET, pool, event = kind, "reported");
        }
    }
}
