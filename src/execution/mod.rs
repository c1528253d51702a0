//! Running application code while it may be loaded and unloaded.
//!
//! A framework calls code that it does not know. Around each such call it wants the same things
//! done (a connection given back, a cache emptied); and while a program is being written, what is
//! called should be newly loaded when its source has changed, though never under the feet of code
//! that runs.
//!
//! - [`Executor`]: hooks around each execution, with a state from run to complete. Every hook that
//!   has run is completed, once, in reverse order, whatever fails and wherever the execution ends.
//! - [`Reloader`]: an executor whose executions find reloaded what has changed. One change is one
//!   reload; one that fails is retried, and nothing begins before it has succeeded.
//! - [`interlock`]: the load interlock. Executions share it; whoever loads or unloads has it alone.
//!   Handles to what is loaded borrow from the share, [`Execution::running`], so the compiler
//!   refuses one that would survive a reload.
//!
//! # Where it differs from its model
//! It is Rails' executor and reloader, with these differences. There, a raising complete callback
//! keeps the others from running, the interlock's among them, which then stays shared for ever;
//! completing twice calls everything twice; completing on another thread leaves the first one
//! active for ever. Here an execution is a value, which ends once, on any thread, completely.
//! There, a change may be reloaded twice, and a failed reload is forgotten; an execution may reload
//! under the feet of the one around it; a child that reloads waits for its parent, which waits for
//! it. Here a reload inside an execution is refused ([`ReloadRefused`]).
//!
//! # Limits
//! - Hooks are given no share: they see nothing that is [`interlock::Loaded`]. What
//!   [prepares](ReloaderBuilder::to_prepare) may load.
//! - A nested execution has a share, but not to load by: what it loads, it loads by the outer one's.
//! - Hooks of an execution that was dropped beside a load are called by the thread that has loaded, under
//!   whatever that has locked. A lock that a hook takes is none to be kept while one loads: the load waits
//!   for executions whose hooks take it.
//! - A thread that is started by hand and waited for, without [`Execution::child`], counts as a
//!   stranger: its reload waits for who waits for it. The interlock sees that only if the wait is
//!   [told](interlock::Running::waiting).
//! - What blocks does not look for futures that its own thread keeps: the end of a
//!   [permit block](interlock::Running::permit_loads) or of a section waits for a load that was granted to a future
//!   meanwhile, and for ever if only this thread polls that, or keeps its guard; so does whatever begins an
//!   execution of its own there ([`Interlock::enter`], [`Executor::run`] and [`wrap`](Executor::wrap), a child).
//!   Only [`Interlock::run`] is told of it. Beside such futures, what waits is to be a future, too.
//! - A body that unloads by its own share lets a reload go first that waits: before its own section, or after it,
//!   when there is nothing left to be refused; or while it waits, and gives that up. If that reload fails, the body
//!   goes on, and so does what nests in it; what begins then is refused ([`HalfReloaded`]), a
//!   [reset](Execution::reset) of this very execution, too.
//! - So does a body whose own reset has failed, and what nests in it. Its execution is over: what would begin
//!   [within](Execution::within) that is refused.
//! - An [`Execution`] that is leaked keeps its share: see [`Interlock::forfeit`].
//! - A permit block whose future is leaked stays open until the share by which it was begun is given back:
//!   nobody unloads meanwhile, and one that waits for children still does, so that a child's load may be
//!   refused as a deadlock.

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
