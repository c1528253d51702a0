//! The executors that are open, and one shutdown of them all.
//!
//! The source's `_EXECUTORS` and `_shutdown_executors`. A run is entered when it is started and struck
//! off when it ends; the registry refers to it weakly. Opening goes through the registry's lock, and
//! a shutdown first forbids it, under the same lock, and then closes whoever is entered: an open
//! came before that, and is closed, or after, and is refused. So what a shutdown has closed stays closed.
//!
//! Close, wake and the drops do not come here.

use super::outcome::OpenError;
use crate::clock::{Clock, Deadline};
use crate::sync::Mutex;
use slab::Slab;
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

/// An executor, as its registry sees it.
pub(super) trait Member: Send + Sync {
    fn name(&self) -> Arc<str>;
    fn close(&self);
    /// Waits for its end; whether it came in time.
    fn has_ended_by(&self, deadline: Deadline) -> bool;
}

/// Knows which of its executors are open, and shuts them down together. Clones are the same registry.
///
/// Every executor is in the process's registry unless it is built with another one, or with none.
///
/// ```
/// use cabrank::{PeriodicExecutor, Registry};
/// use std::time::Duration;
///
/// let registry = Registry::new();
/// let beat = PeriodicExecutor::builder(Duration::from_secs(10))
///     .registry(&registry)
///     .target(|| println!("alive"));
/// beat.open()?;
/// assert_eq!(registry.len(), 1);
/// registry.shutdown(Duration::from_secs(5))?;
/// assert!(registry.is_empty() && beat.open().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registry(Arc<Shared>);

struct Shared {
    members: Mutex<Members>,
    clock: Clock,
}

struct Members {
    shut_down: bool,
    runs: Slab<Weak<dyn Member>>,
}

static OF_THE_PROCESS: LazyLock<Registry> = LazyLock::new(Registry::new);

/// Shuts down all executors of the process's registry: [`Registry::shutdown`] of
/// [`Registry::of_the_process`]. For the end of `main`.
///
/// # Errors
/// Names the executors that have not ended in time.
pub fn shutdown_all(timeout: Duration) -> Result<(), ShutdownError> {
    Registry::of_the_process().shutdown(timeout)
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl Registry {
    /// A registry of its own, with nobody in it.
    pub fn new() -> Self {
        Registry::with_clock(Clock::monotonic())
    }
    /// The same, whose shutdowns' time-outs are told by `clock`. If that is a clock moved by hand, it has to
    /// be that of the executors, too: it is they who are waited for.
    pub fn with_clock(clock: Clock) -> Self {
        let members = Members { shut_down: false, runs: Slab::new() };
        Registry(Arc::new(Shared { members: Mutex::new(members), clock }))
    }
    /// The registry of the process, in which executors are by default.
    pub fn of_the_process() -> Self {
        OF_THE_PROCESS.clone()
    }

    /// How many executors are open.
    pub fn len(&self) -> usize {
        self.0.members.lock().runs.len()
    }
    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes every open executor, and refuses to open any from now on. Does not wait: to be followed
    /// by joins, where those are futures.
    pub fn close(&self) {
        for executor in self.shut() {
            executor.close();
        }
    }

    /// Closes every open executor, refuses to open any from now on, and waits for all of them, for
    /// `timeout` in all. A call of a target that is under way is waited for. Whoever is called by a
    /// target does not wait for that executor.
    ///
    /// This blocks the thread. On a thread that executors' tasks need, use [`close`](Self::close).
    ///
    /// # Errors
    /// Names the executors that have not ended in time. They are closed, and end after the call under way.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let deadline = self.0.clock.deadline(timeout);
        let executors = self.shut();
        // All at once, then one after the other: they end side by side.
        executors.iter().for_each(|executor| executor.close());
        let late = executors.iter().filter(|executor| !executor.has_ended_by(deadline));
        let late: Vec<Arc<str>> = late.map(|executor| executor.name()).collect();
        if late.is_empty() { Ok(()) } else { Err(ShutdownError { late }) }
    }

    fn shut(&self) -> Vec<Arc<dyn Member>> {
        let mut members = self.0.members.lock();
        members.shut_down = true;
        members.runs.iter().filter_map(|(_, run)| run.upgrade()).collect()
    }

    /// Opens `executor` by `open`, which says whether it starts a run. Its entry, if it does.
    pub(super) fn admit(
        &self,
        executor: Weak<dyn Member>,
        open: impl FnOnce() -> bool,
    ) -> Result<Option<usize>, OpenError> {
        let mut members = self.0.members.lock();
        if members.shut_down {
            return Err(OpenError::ShutDown);
        }
        Ok(open().then(|| members.runs.insert(executor)))
    }

    /// A run has ended.
    pub(super) fn leave(&self, entry: usize) {
        self.0.members.lock().runs.remove(entry);
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("open", &self.len()).finish()
    }
}

/// Executors that were shut down have not ended in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownError {
    late: Vec<Arc<str>>,
}

impl ShutdownError {
    /// Their names.
    pub fn late(&self) -> &[Arc<str>] {
        &self.late
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not stopped in time: {}", self.late.join(", "))
    }
}

impl std::error::Error for ShutdownError {}
