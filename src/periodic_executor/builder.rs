//! The builder of both flavours.

use super::core::{Registered, Settings};
use super::registry::Registry;
use crate::Clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Builds an executor. `F` is its flavour: [`OnThread`](super::OnThread) or [`OnRuntime`](super::OnRuntime).
///
/// ```
/// # use cabrank::PeriodicExecutor;
/// # use std::time::Duration;
/// let executor = PeriodicExecutor::builder(Duration::from_secs(10))
///     .name("monitor")
///     .min_interval(Duration::from_millis(500))
///     .build(|| println!("check"));
/// assert_eq!(executor.name(), "monitor");
/// ```
#[derive(Clone)]
#[must_use = "`build` or `build_weak` builds the executor"]
pub struct Builder<F> {
    name: Arc<str>,
    interval: Option<Duration>,
    min_interval: Duration,
    clock: Clock,
    registered: Registered,
    pub(super) flavour: F,
}

impl<F> Builder<F> {
    pub(super) fn new(interval: Option<Duration>, flavour: F) -> Self {
        Builder {
            name: "periodic".into(),
            interval,
            min_interval: Duration::ZERO,
            clock: Clock::monotonic(),
            registered: Registered::WithTheProcess,
            flavour,
        }
    }
    /// Names the executor's thread, and the executor in a [`ShutdownError`](super::ShutdownError). Default:
    /// `periodic`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
    /// Sets the least time between the end of a call and the beginning of the next. Default: zero.
    ///
    /// It limits wakes, and shorter intervals. [`skip_sleep`](super::PeriodicExecutor::skip_sleep) and an open after
    /// a close ignore it.
    pub fn min_interval(mut self, min_interval: Duration) -> Self {
        self.min_interval = min_interval;
        self
    }
    /// Sets the clock. Default: the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Sets the registry that the executor is in while it is open. Default: [`Registry::of_the_process`].
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registered = Registered::With(registry.clone());
        self
    }
    /// Keeps the executor out of every registry: no shutdown closes it.
    pub fn unregistered(mut self) -> Self {
        self.registered = Registered::Nowhere;
        self
    }

    pub(super) fn settings(self) -> (Settings, F) {
        let settings = Settings {
            name: self.name,
            interval: self.interval,
            min_interval: self.min_interval,
            clock: self.clock,
            registered: self.registered,
        };
        (settings, self.flavour)
    }
}

impl<F> fmt::Debug for Builder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("interval", &self.interval)
            .field("min_interval", &self.min_interval)
            .finish_non_exhaustive()
    }
}
