//! Models: the real code of `src/`, under every interleaving (`cargo test --features loom`) and under
//! many random ones (`cargo test --features shuttle`).
//!
//! Each file is one meeting of actors. Its head says which actors meet, what the models assert, and what
//! goes wrong without the line of `src/` that they guard. Both tools run the same models and must
//! reach the same outcomes, so a search that was cut fails. loom's number of executions stands beside the name of each model.
//!
//! Every model asserts each invariant of the pool at the end of each critical section, except INV-PROCESS-HERE, which
//! would be a step for each process. Every model also asserts at each call of user code that the thread holds no lock
//! (`user_code::catch`). In some models that user code re-enters the pool; README.md has a table of them.
//! A model of a pool in which loom cannot afford that says so.
//!
//! `faults.py` removes the guarded lines one by one and reports which models fail.

mod application_pool;
mod execution;
mod interlock;
mod loaded_code;
mod periodic_executor;
mod resource_pool;
mod rig;
mod section;
pub(crate) mod tool;
