//! Runs application code that may be loaded and unloaded meanwhile.
//!
//! A framework wraps each call of application code in the same steps, such as returning a connection or
//! clearing a cache. During development it also reloads changed code, but never while an execution uses it.
//!
//! - [`Executor`]: hooks around each execution, which pass a state from run to complete. Every hook that ran
//!   is completed once, in reverse order, after any failure and on any thread.
//! - [`Reloader`]: an executor that reloads a change once, before the next execution begins. A failed reload
//!   is retried; no execution begins before it succeeds.
//! - [`interlock`]: the load interlock. Executions share it; a load or an unload has it alone. Handles to
//!   loaded values borrow from the share ([`Execution::running`]), so the compiler refuses one that would
//!   survive a reload.
//!
//! # Limits
//! - Hooks have no share: they cannot use a [`interlock::Loaded`] value. The
//!   [prepare](ReloaderBuilder::to_prepare) callbacks may load.
//! - A nested execution may not load by its own share, only by the outer one's.
//! - If an execution is dropped during a load, the loading thread calls its hooks, under its own locks. Do
//!   not keep a lock that a hook takes while you load: the load waits for executions whose hooks take it.
//! - A thread started without [`Execution::child`] counts as unrelated: its reload waits for the execution
//!   that joins it. The interlock detects that only if the wait is [declared](interlock::Running::waiting).
//! - A blocking call does not poll the futures of its own thread. It may wait for ever for a load that such a
//!   future was granted, or whose guard it keeps. That concerns the end of a [permit
//!   block](interlock::Running::permit_loads) or a section, and the begin of a separate execution
//!   ([`Interlock::enter`], [`Executor::run`], [`wrap`](Executor::wrap), a child). Only [`Interlock::run`]
//!   detects it. Next to such futures, wait in a future, too.
//! - An explicit unload in a body yields to a waiting reload: before or after its own section, or by
//!   abandoning its wait. If that reload fails, the body and its nested executions go on. Executions that
//!   would begin then, and a [reset](Execution::reset) of this one, fail with [`HalfReloaded`].
//! - A body whose own reset failed goes on, too, with its nested executions. But its execution has ended: no
//!   other execution begins [within](Execution::within) it.
//! - A leaked [`Execution`] keeps its share: see [`Interlock::forfeit`].
//! - A permit block whose future is leaked stays open until its share is given back. No execution unloads
//!   meanwhile. If it waits for children, the wait still counts, and a child's load may fail with a deadlock.
//!
//! # Origin
//! Rails' executor and reloader, with these differences:
//! - In Rails a raising complete callback skips the others, including the interlock's, which then stays
//!   shared for ever. Completing twice calls everything twice; completing on another thread leaves the first
//!   one active. Here an execution is a value, which ends once, on any thread, completely.
//! - In Rails a change may be reloaded twice, and a failed reload is forgotten. An execution may reload code
//!   that the one around it uses, and a child that reloads deadlocks with its parent. Here a reload inside an
//!   execution fails with [`ReloadRefused`].

mod ambient;
mod changes;
mod child;
mod error;
mod executor;
mod guard;
mod hooks;
pub mod interlock;
mod preparing;
mod reloader;
mod reloader_builder;
mod reloading;
mod report;
mod scoped;

pub use child::Child;
pub use error::{BoxError, ExecutionError, Failure, HalfReloaded, Panicked, ReloadRefused, Stage};
pub use executor::{Executor, ExecutorBuilder};
pub use guard::Execution;
pub use hooks::Hook;
pub use interlock::Interlock;
pub use preparing::Preparing;
pub use reloader::Reloader;
pub use reloader_builder::{ReloaderBuilder, ReloaderError};
pub use report::{Report, Severity};
