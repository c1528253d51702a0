//! The tool that runs the models: the primitives of loom and shuttle in the vocabulary of `src/kernel/sync.rs`, the
//! exploration of a model, and the log of a failing execution.
//!
//! - [`explore`]: explores a model, and compares what it has reached with what the model states.
//! - [`modelled`], [`modelled_signals`], [`threads`]: locks, flags, wakers and threads that the tools schedule.
//! - [`me`]: the number of the running thread.
//! - [`published`]: cells that show loom what a change of a lock-free word publishes.
//! - [`trace`]: the steps of each thread.

pub(crate) mod explore;
pub(crate) mod me;
pub(crate) mod modelled;
pub(crate) mod modelled_signals;
mod published;
#[path = "modelled_threads.rs"]
pub(crate) mod threads;
mod trace;
