//! The load interlock, the executor and the reloader, and the interlock's refinement of its specification.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod executor;
mod interlock;
mod interlock_refinement;
mod places;
mod polling;
mod reloader;
