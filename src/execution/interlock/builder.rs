//! The builder of an interlock.

use super::Interlock;
use super::inner::Inner;
use super::reload_state::ReloadState;
use super::state::State;
use crate::clock::Clock;
use crate::section::Lock;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Builds an [`Interlock`].
///
/// ```
/// use cabrank::Interlock;
/// use std::time::Duration;
///
/// let interlock = Interlock::builder().acquire_timeout(Duration::from_secs(30)).build();
/// # drop(interlock);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct InterlockBuilder {
    clock: Clock,
    acquire_timeout: Option<Duration>,
}

impl InterlockBuilder {
    /// Sets the clock of time limits and ages. The default is the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Limits each wait: to enter, to load or unload, for the end of others' turns, and for the share after a permit
    /// block. The default is no limit.
    ///
    /// The limits of tasks are kept by one thread, which starts with the first such wait.
    pub fn acquire_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = limit.into();
        self
    }
    /// Builds the interlock.
    pub fn build(self) -> Interlock {
        let inner = Arc::new(Inner {
            state: Lock::new(State::default(), self.clock),
            quiet: AtomicBool::new(true),
            acquire_timeout: self.acquire_timeout,
            reload: ReloadState::default(),
            timer: OnceLock::new(),
        });
        let listener: Weak<Inner> = Arc::downgrade(&inner);
        inner.state.clock().add_listener(listener);
        Interlock(inner)
    }
}
