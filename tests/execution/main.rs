//! The load interlock, the executor and the reloader, and the interlock's refinement of its specification.

#[path = "../common/mod.rs"]
mod common;

mod executor;
mod interlock;
mod interlock_refinement;
mod polling;
mod reloader;
