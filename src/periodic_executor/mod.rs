//! Calls a target again and again, on a thread or a task of its own, with a pause after each call.
//!
//! - [`PeriodicExecutor`] calls a function on a thread; [`AsyncPeriodicExecutor`] awaits one on any runtime.
//! - `open`, `close`, `wake`, `skip_sleep` and `update_interval` control the calls; `join` waits for the end of
//!   them.
//! - A target may be referred to weakly: the executor stops when the target is gone.
//! - A [`Registry`] knows the open executors and shuts all of them down at once. A [`ShutdownAtExit`] in `main` does
//!   so at its end.
//!
//! ```
//! use cabrank::PeriodicExecutor;
//! use cabrank::periodic_executor::Joined;
//! use std::time::Duration;
//!
//! let executor = PeriodicExecutor::builder(Duration::from_secs(60)).name("report").build(|| {
//!     println!("all is well");
//! });
//! executor.open()?;
//! executor.wake(); // also now
//! executor.close();
//! assert_eq!(executor.join()?, Joined::Closed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A sleeping executor does not wake until there is something to do. `close`, `wake` and the drops change one
//! atomic word and unpark: they take no lock and allocate nothing. So a caller may use them anywhere: in
//! any `Drop`, and under any lock.
//!
//! # Time
//! The pause begins when the call has ended: the interval is the time between the end of one call and the
//! beginning of the next. A wake brings the next call forward, but not before `min_interval` has passed
//! since the end of the last one. One call serves all wakes that come before it begins.
//!
//! # Runs
//! A *run* is one thread or one task, from the open that starts it to its end. There is at most one at a time, and it
//! owns the target meanwhile. So the target may change itself, and only one call is under way. An open that
//! meets a run about to end makes that run go on, on the same thread; so no open waits for an old thread.
//!
//! A join of a [`PeriodicExecutor`], and a shutdown, return when the thread is gone: it has dropped its thread-locals,
//! and the system has removed it.
//!
//! # Forked children
//! Threads do not survive a fork. In a child that was forked while an executor was open:
//! - The executor cannot be opened: its target is in the parent's run. `open` fails with [`OpenError::Forked`], `join`
//!   returns [`Joined::Forked`] at once, and the phase is [`Phase::Stopped`]. `wake` and `close` do nothing.
//! - Executors that were not open at the fork can be opened, and so can new ones. The child has a registry of its own,
//!   which knows only these.
//! - A task runs on if the thread that forks polls it in the child.
//!
//! POSIX promises little to such a child: a lock that another thread holds at the fork stays locked. Therefore open
//! executors in the child, and fork before the parent opens any.
//!
//! # Origin
//! PyMongo's periodic executor, on which its monitors run, has the same operations by the same names. It looks at its
//! flags every `min_interval`, because its finalisers must not take the lock that waking a thread
//! needs there. Other differences:
//! - A wake that comes before a call begins causes no second call after it.
//! - A join returns the panic of the target.
//! - Dropping the last handle closes the executor, for no caller could close it any more.
//! - An executor that a shutdown has closed cannot be opened again.

// The files:
// - `signal.rs`: the atomic word, its bits, and why no signal is lost.
// - `core.rs`: what thread and task share: the settings, the interval, the pause after a call.
// - `run.rs`: the start and the end of a run.
// - `join.rs`: waiting for the end of a run.
// - `exit.rs`: the threads of runs that have ended.
// - `periodic.rs`: the handles, and the calls that are the same for both flavours.
// - `thread.rs` and `task.rs`: the two flavours. They differ in how they start, call and sleep.
// - `run_task.rs`: the task of a run, which a runtime polls.
// - `on_tokio.rs`: tokio as that runtime (feature `tokio`).
// - `task_waker.rs`: a runtime's waker, as those that wake a task see it.
// - `registry.rs`: the open executors, and the shutdown of all.
// - `weak.rs`: calls of a target that may be gone.

mod at_exit;
mod builder;
mod core;
mod exit;
mod join;
#[cfg(feature = "tokio")]
mod on_tokio;
mod outcome;
mod periodic;
mod registry;
mod run;
mod run_task;
mod signal;
mod task;
mod task_waker;
mod thread;
mod weak;

pub use crate::kernel::runtime::{BoxFuture, Runtime};
pub use at_exit::ShutdownAtExit;
pub use builder::Builder;
#[cfg(feature = "tokio")]
pub use on_tokio::Tokio;
pub(crate) use outcome::Verdict;
pub use outcome::{Flow, JoinError, Joined, OpenError, Phase};
pub use periodic::{CloseOnDrop, Flavour, Periodic};
pub use registry::{Registry, ShutdownError, shutdown_all};
pub use task::{AsyncPeriodicExecutor, OnRuntime};
pub use thread::{OnThread, PeriodicExecutor};
