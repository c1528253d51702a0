//! The work of the pool that runs without the lock. It reaches the state through the lock alone.

mod cleaner_thread;
mod getting;
pub(crate) mod inner;
mod looker;
pub(crate) mod restart_files;
mod run_effects;
mod spawner_thread;
mod taking;
