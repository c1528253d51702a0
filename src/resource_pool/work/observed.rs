//! Observes a named pool: passes times and events on to `tracing` and `metrics`, as far as the features are on.
//!
//! Subscribers and recorders are user code. The pool calls them without its lock, and contains their panics. A pool
//! without a name observes nothing, and reads no clock for it. `unobserved.rs` stands in for this file without both
//! features.

#[cfg(feature = "metrics")]
use super::to_metrics;
#[cfg(feature = "tracing")]
use super::to_tracing;
use crate::kernel::user_code::contain;
use crate::resource_pool::api::error::{BorrowError, Failure};
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::began::Began;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Instant;

/// The name of a pool that is observed.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<Arc<str>>);

impl Observed {
    pub(crate) fn by_name(name: Arc<str>) -> Self {
        Observed(Some(name))
    }
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
    #[inline]
    pub(crate) fn begin(&self) -> Began {
        Began(self.0.is_some().then(Instant::now))
    }

    /// A borrower got a resource. Returns when the loan began.
    #[inline]
    pub(crate) fn lent(&self, began: Began) -> Began {
        let (Some(name), Some(began)) = (&self.0, began.0) else { return Began::default() };
        let now = Instant::now();
        let _ = contain(|| {
            #[cfg(feature = "metrics")]
            to_metrics::lent(name, now - began);
            #[cfg(feature = "tracing")]
            to_tracing::lent(name, now - began);
        });
        Began(Some(now))
    }
    #[cold]
    pub(crate) fn not_lent<E>(&self, error: &BorrowError<E>) {
        let Some(name) = &self.0 else { return };
        let reason = match error {
            BorrowError::Closed => "closed",
            BorrowError::Exhausted => "exhausted",
            BorrowError::WouldBlock => "would_block",
            BorrowError::Forked => "forked",
            BorrowError::TimedOut(_) => "timed_out",
            BorrowError::Create(_) => "create",
            BorrowError::Activate(_) => "activate",
            BorrowError::Invalid => "invalid",
        };
        let _ = contain(|| {
            #[cfg(feature = "metrics")]
            to_metrics::not_lent(name, reason);
            #[cfg(feature = "tracing")]
            to_tracing::not_lent(name, reason);
        });
    }
    /// A loan has ended, if there was one.
    #[inline]
    pub(crate) fn returned(&self, began: &mut Began) {
        let began = std::mem::take(began);
        let (Some(name), Some(began)) = (&self.0, began.0) else { return };
        let lent_for = began.elapsed();
        let _ = contain(|| {
            #[cfg(feature = "metrics")]
            to_metrics::returned(name, lent_for);
            #[cfg(feature = "tracing")]
            to_tracing::returned(name, lent_for);
        });
    }
    pub(crate) fn destroyed(&self) {
        let Some(name) = &self.0 else { return };
        let _ = contain(|| {
            #[cfg(feature = "metrics")]
            to_metrics::destroyed(name);
            #[cfg(feature = "tracing")]
            to_tracing::destroyed(name);
        });
    }
    pub(crate) fn reported<E: std::fmt::Display>(&self, event: &Event<E>) {
        let Some(name) = &self.0 else { return };
        let _ = contain(|| {
            #[cfg(feature = "metrics")]
            to_metrics::reported(name, kind(event));
            #[cfg(feature = "tracing")]
            to_tracing::reported(name, kind(event), event);
        });
    }

    /// Measures a creation. A creation that is dropped before its end is not counted.
    pub(crate) fn creation<F: Form>(&self, mut creation: Creation<F>) -> Creation<F> {
        let (Some(name), began) = (self.0.clone(), Instant::now()) else { return creation };
        Box::pin(poll_fn(move |cx| {
            creation.as_mut().poll(cx).map(|made| {
                let outcome = match &made {
                    Ok(_) => "created",
                    Err(Failure::Error(_)) => "error",
                    Err(Failure::Panicked(_)) => "panicked",
                    Err(Failure::TimedOut) => "timed_out",
                };
                let _ = contain(|| {
                    #[cfg(feature = "metrics")]
                    to_metrics::created(&name, outcome, began.elapsed());
                    #[cfg(feature = "tracing")]
                    to_tracing::created(&name, outcome, began.elapsed());
                });
                made
            })
        }))
    }
}

/// Returns the name of an event's kind, in metrics and traces.
fn kind<E>(event: &Event<E>) -> &'static str {
    match event {
        Event::CreateFailed(_) => "create_failed",
        Event::ActivateFailed(_) => "activate_failed",
        Event::PassivateFailed(_) => "passivate_failed",
        Event::ValidatePanicked(_) => "validate_panicked",
        Event::ValidateTimedOut => "validate_timed_out",
        Event::Invalid => "invalid",
        Event::DestroyPanicked(_) => "destroy_panicked",
        Event::DestroyTimedOut => "destroy_timed_out",
        Event::MaintenanceNotStarted(_) => "maintenance_not_started",
        Event::RuntimeEnded => "runtime_ended",
        Event::Abandoned { .. } => "abandoned",
    }
}
