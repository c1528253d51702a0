//! Calls a target again and again, on a thread or a task of its own, with a pause after each call.
//!
//! After the periodic executor of PyMongo, on which its monitors run. Everything that it can do is
//! here by its names: `open`, `close`, `wake`, `join`, `update_interval`, `skip_sleep`; an interval and a
//! minimum interval, a name, a weak target, stopping when the target says so or is gone, and a registry
//! of open executors with one shutdown for all. What it does by looking every half second is done here
//! by parking and being unparked: a sleeping executor does not wake until there is something to do.
//!
//! Why it polls is why this does not: close, wake and the drops may be called where no lock may be taken
//! (the source's finalisers), and what it had to wake a thread by takes one. Here they change one atomic
//! word and unpark; they take no lock and allocate nothing, and so may be called anywhere, from within
//! any `Drop`, under any lock.
//!
//! # How it works
//! - `signal.rs`: the word, its bits, and why no signal is lost. That file is the argument.
//! - `core.rs`: the target while nobody runs it, the end of a run, and who waits for it.
//! - `thread.rs` and `task.rs`: the two flavours, which differ in how they sleep and how they begin.
//! - `task_waker.rs`: a runtime's waker, as it is shown to those who wake a task.
//! - `registry.rs`: who is open, and the shutdown of all.
//! - `weak.rs`: calls of a target that may be gone.
//!
//! A *run* is one thread or one task, from the open that starts it to its end. There is at most one,
//! and while there is one it has the target; so a target may change itself, and is called by one
//! at a time. An open that finds the run about to end makes it go on as a new one, on the same thread;
//! so nobody waits for the old thread before a new one may be started, as the source's `open` does.
//!
//! # Time
//! The pause begins when the call has ended, as in the source: the interval is that between the end of
//! one call and the beginning of the next. A wake brings the next call forward, but not before
//! `min_interval` has passed since the end of the last one; wakes that come before the call begins are
//! all served by it. In the source `min_interval` is how often it looks, and has the same effect; here
//! it limits nothing else, and no thread wakes for it.
//!
//! # Where it differs from the source
//! - A wake that comes before a call begins causes no second call after it.
//! - A panic of the target is kept and handed to whoever joins.
//! - Dropping the last handle closes the executor: in Rust, what nobody can close any more should not
//!   go on. An executor that belongs to its target is therefore closed with it.
//! - What a shutdown has closed cannot be opened again.

mod core;
mod outcome;
mod registry;
mod signal;
mod task;
mod task_waker;
mod thread;
mod weak;

use self::core::Settings;
use crate::Clock;
use crate::sync::has_failed;
pub(crate) use outcome::Verdict;
pub use outcome::{Flow, JoinError, Joined, OpenError, Phase};
use registry::Member;
pub use registry::{Registry, ShutdownError, shutdown_all};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use task::{AsyncPeriodicExecutor, BoxFuture, OnRuntime, Runtime};
pub use thread::{OnThread, PeriodicExecutor};

/// Closes an executor when it is dropped, however many handles there are.
///
/// To be kept by the target's owner, so that the executor ends with it, at once. (An executor
/// whose only handle is kept there needs none.) Dropping it takes no lock, allocates nothing and does
/// not wait, so the owner may be dropped anywhere: on the executor's own thread, too.
pub struct CloseOnDrop(Arc<dyn Member>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.close();
        }
    }
}

impl fmt::Debug for CloseOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CloseOnDrop").field(&self.0.name()).finish()
    }
}

/// Which registry an executor is in.
#[derive(Clone)]
enum Registered {
    WithTheProcess,
    With(Registry),
    Nowhere,
}

/// Builds an executor; `F` is its flavour.
#[derive(Clone)]
#[must_use = "an executor is built by `target` or `weak`"]
pub struct ExecutorBuilder<F> {
    name: Arc<str>,
    interval: Duration,
    min_interval: Duration,
    clock: Clock,
    registered: Registered,
    flavour: F,
}

impl<F> ExecutorBuilder<F> {
    fn new(interval: Duration, flavour: F) -> Self {
        ExecutorBuilder {
            name: "periodic".into(),
            interval,
            min_interval: Duration::ZERO,
            clock: Clock::monotonic(),
            registered: Registered::WithTheProcess,
            flavour,
        }
    }
    /// The name of its thread, and of the executor in a [`ShutdownError`]. Default: `periodic`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }
    /// The least time between the end of a call and the beginning of the next: a limit for wakes, and for
    /// intervals below it. [`skip_sleep`](PeriodicExecutor::skip_sleep) and an open after a close are not
    /// held back by it. Default: none.
    pub fn min_interval(mut self, min_interval: Duration) -> Self {
        self.min_interval = min_interval;
        self
    }
    /// Where it gets its time from. Default: the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// The registry it is in while it is open. Default: [`Registry::of_the_process`].
    pub fn registry(mut self, registry: &Registry) -> Self {
        self.registered = Registered::With(registry.clone());
        self
    }
    /// In no registry: no shutdown closes it.
    pub fn unregistered(mut self) -> Self {
        self.registered = Registered::Nowhere;
        self
    }

    fn settings(self) -> (Settings, F) {
        let registry = match self.registered {
            Registered::WithTheProcess => Some(Registry::of_the_process()),
            Registered::With(registry) => Some(registry),
            Registered::Nowhere => None,
        };
        let settings = Settings {
            name: self.name,
            interval: self.interval,
            min_interval: self.min_interval,
            clock: self.clock,
            registry,
        };
        (settings, self.flavour)
    }
}

impl<F> fmt::Debug for ExecutorBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorBuilder")
            .field("name", &self.name)
            .field("interval", &self.interval)
            .field("min_interval", &self.min_interval)
            .finish_non_exhaustive()
    }
}
