//! Models: the real code of `src/`, under every interleaving (`cargo test --features loom`) and under
//! many random ones (`cargo test --features shuttle`).
//!
//! Each file is one meeting of actors. Its first lines say who meets whom, what is asserted, and what
//! would go wrong without the line of `src/` that it guards. Both tools run the same models, and must
//! reach the same outcomes: a search that was cut, or went blind, fails; `executions.rs` has loom's figures.
//!
//! In every model, every invariant of the pool but INV-PROCESS-HERE, which would be a step for each process, is
//! asserted at the end of each critical section, and at each foreign call that its thread holds no lock
//! (`contained`). Each kind of foreign call re-enters the
//! pool in some models besides: README.md has a table of them. Models of the two pools in which loom
//! cannot afford it say so.
//! `faults.py` takes away, one by one, the lines that the models guard, and tells which models notice.

mod application_pool;
mod execution;
pub(crate) mod executions;
mod interlock;
mod periodic_executor;
mod resource_pool;
mod rig;
mod section;
pub(crate) mod small;
mod world;
