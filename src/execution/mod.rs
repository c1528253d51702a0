//! Runs application code that may be loaded and unloaded meanwhile.
//!
//! A framework wraps each call of application code in the same steps, such as returning a connection or
//! clearing a cache. During development it also reloads changed code, but never while an execution uses it.
//!
//! - [`Executor`]: hooks around each execution, which pass a state from run to complete. Every hook that ran
//!   is completed once, in reverse order, after any failure and on any thread.
//! - [`Reloader`]: an executor that reloads a change once, before the next execution begins. A failed reload
//!   is tried again; no execution begins before one succeeds.
//! - [`interlock`]: the load interlock. Executions share it; a load or an unload has it alone. Handles to
//!   loaded values borrow from the share ([`Execution::running`]), so the compiler refuses one that would
//!   survive a reload of its own view.
//! - [`PerExecution`]: a value of each execution, such as a connection, which is dropped at its end.
//!
//! # Limits
//! - The [limits of the interlock](interlock#limits) hold for executions, too: a reload waits as an unload does. Set a
//!   time limit by [`ExecutorBuilder::acquire_timeout`]; its error carries the [dump](interlock::Interlock::dump).
//! - An [`Execution`] that a blocked task keeps has its share meanwhile, and every load and reload waits for it.
//! - A hook needs no share: the execution may have lost it by a dropped future. So a hook that uses a loaded value
//!   must expect that [`interlock::Loaded::get`] returns `None`.
//!
//! # Origin
//! Rails' executor and reloader, with these differences:
//! - In Rails a raising complete callback skips the others, including the interlock's. Completing twice calls all
//!   of them twice, and on another thread it leaves the first one active. Here an execution ends once.
//! - In Rails a change may be reloaded twice, a failed reload is forgotten, and an execution may reload code that the
//!   one around it uses. Here a reload inside an execution fails with [`Refused`].
//! - In Rails each complete callback of a chain runs in the order of definition. Here they run in strict reverse order.
//!   Where Rails resets an execution (`run!(reset: true)`), complete it here, and run another one.

mod ambient;
mod changes;
mod error;
#[expect(clippy::module_inception, reason = "it is the execution's own file")]
mod execution;
mod executor;
mod hooks;
pub mod interlock;
mod named;
mod per_execution;
mod reloader;
mod reloading;
mod scoped;
mod watch_files;

pub use error::{BoxError, ExecutionError, Failure, Panicked, Refused, Stage};
pub use execution::Execution;
pub use executor::{ExecutionGuard, Executor, ExecutorBuilder};
pub use hooks::Hook;
pub use interlock::Interlock;
pub use per_execution::PerExecution;
pub use reloader::{Reloader, ReloaderBuilder};
