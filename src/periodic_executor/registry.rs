//! The open executors, and one shutdown of all.
//!
//! An executor enters when a run starts and leaves when the run ends. The registry refers to it weakly. Each
//! open holds the registry's lock. A shutdown first forbids opens, under the same lock, and then closes each
//! entry. So a shutdown closes each executor that was opened before it, refuses later opens, and an executor that it
//! has closed stays closed.
//!
//! Close, wake and the drops do not use the registry.
//!
//! # Origin
//! PyMongo's `_EXECUTORS` and `_shutdown_executors`.

use super::exit::{Exit, Exits};
use super::outcome::OpenError;
use crate::kernel::clock::{Clock, Deadline};
use crate::kernel::sync::Mutex;
use slab::Slab;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::Duration;

/// An executor, as its registry and its owners see it.
pub(super) trait Member: Send + Sync {
    fn name(&self) -> Arc<str>;
    fn close(&self);
    /// Waits for the end of the run. Returns whether it came in time.
    fn has_ended_by(&self, deadline: Deadline) -> bool;
}

/// Knows the open executors and shuts them down together. Clones are the same registry.
///
/// An executor uses the process's registry, unless its builder names another one or none.
///
/// ```
/// use cabrank::periodic_executor::Registry;
/// use cabrank::PeriodicExecutor;
/// use std::time::Duration;
///
/// let registry = Registry::new();
/// let beat = PeriodicExecutor::builder(Duration::from_secs(10))
///     .registry(&registry)
///     .build(|| println!("alive"));
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
    /// The threads of runs that have ended.
    exits: Exits,
}

/// The registry of a process, and of the child in which this is a copy of it.
///
/// A forked child does not use its parent's: the lock may have been held at the fork, and the runs are the parent's.
struct OfProcess {
    process: u32,
    registry: Registry,
    of_child: OnceLock<Box<OfProcess>>,
}

impl OfProcess {
    fn new(process: u32) -> Self {
        OfProcess { process, registry: Registry::new(), of_child: OnceLock::new() }
    }
}

static OF_THE_PROCESS: LazyLock<OfProcess> = LazyLock::new(|| OfProcess::new(std::process::id()));

/// Shuts down all executors of the process's registry, for the end of `main`.
///
/// # Errors
/// Names the executors that have not ended in time. See [`Registry::shutdown`].
pub fn shutdown_all(timeout: Duration) -> Result<(), ShutdownError> {
    Registry::of_the_process().shutdown(timeout)
}

impl Default for Registry {
    fn default() -> Self {
        Registry::new()
    }
}

impl Registry {
    /// Returns a new, empty registry.
    pub fn new() -> Self {
        Registry::with_clock(Clock::monotonic())
    }
    /// Returns a new registry that measures the timeouts of its shutdowns by `clock`.
    ///
    /// A manual clock must be the executors' clock, too: its advance wakes a shutdown through them.
    pub fn with_clock(clock: Clock) -> Self {
        let members = Members { shut_down: false, runs: Slab::new(), exits: Exits::default() };
        Registry(Arc::new(Shared { members: Mutex::new(members), clock }))
    }
    /// Returns the registry of the process, the default of every executor. A forked child has one of its own.
    pub fn of_the_process() -> Self {
        let me = std::process::id();
        let mut of = &*OF_THE_PROCESS;
        while of.process != me {
            of = of.of_child.get_or_init(|| Box::new(OfProcess::new(me)));
        }
        of.registry.clone()
    }

    /// Returns the number of open executors.
    pub fn len(&self) -> usize {
        self.0.members.lock().runs.len()
    }
    /// Returns whether no executor is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes every open executor and refuses opens from now on. Does not wait.
    ///
    /// To wait without blocking a thread, join each executor afterwards.
    pub fn close(&self) {
        for executor in self.shut() {
            executor.close();
        }
    }

    /// Closes every open executor, refuses opens from now on, and waits until all have ended and their threads are
    /// gone.
    ///
    /// Waits for `timeout` in all, also for calls under way and for destructors of thread-locals. A target that calls
    /// this does not wait for its own executor. This blocks the thread: on a thread that executors' tasks need, use
    /// [`close`](Self::close).
    ///
    /// # Errors
    /// Names the executors that have not ended in time. They are closed and end after the call under way.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let deadline = self.0.clock.deadline(timeout);
        let executors = self.shut();
        // Close all before the first wait: they end side by side.
        executors.iter().for_each(|executor| executor.close());
        let late = executors.iter().filter(|executor| !executor.has_ended_by(deadline));
        let mut late: Vec<Arc<str>> = late.map(|executor| executor.name()).collect();
        let exits = self.0.members.lock().exits.all();
        let leaving = exits.iter().filter(|exit| !exit.is_gone_by(deadline));
        late.extend(leaving.map(|exit| exit.name.clone()));
        if late.is_empty() { Ok(()) } else { Err(ShutdownError { late }) }
    }

    fn shut(&self) -> Vec<Arc<dyn Member>> {
        let mut members = self.0.members.lock();
        members.shut_down = true;
        members.runs.iter().filter_map(|(_, run)| run.upgrade()).collect()
    }

    /// Opens `executor` by `open`, which returns whether a run starts. Returns the run's entry, if one starts.
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

    /// Removes the entry of a run that has ended, and keeps its thread. Returns the older threads, which the caller
    /// reaps.
    pub(super) fn leave(&self, entry: usize, exit: Option<Exit>) -> Vec<Exit> {
        let mut members = self.0.members.lock();
        members.runs.remove(entry);
        exit.map(|exit| members.exits.add(exit)).unwrap_or_default()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("open", &self.len()).finish()
    }
}

/// A shutdown timed out before all executors had ended.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::Registry;
/// use std::time::Duration;
///
/// let registry = Registry::new();
/// let (begun, has_begun) = std::sync::mpsc::channel();
/// let builder = PeriodicExecutor::builder(None).registry(&registry).name("backup");
/// let executor = builder.build(move || {
///     let _ = begun.send(());
///     std::thread::sleep(Duration::from_secs(1)); // does not obey at once
/// });
/// executor.open()?;
/// has_begun.recv()?;
/// let error = registry.shutdown(Duration::ZERO).unwrap_err();
/// assert_eq!(&*error.late()[0], "backup");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownError {
    late: Vec<Arc<str>>,
}

impl ShutdownError {
    /// Returns the names of the executors that have not ended.
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
