//! Models: the real code of `src/`, under every interleaving (`cargo test --features loom`) and under
//! many random ones (`cargo test --features shuttle`).
//!
//! Each file is one meeting of actors. Its first lines say who meets whom, what is asserted, and what
//! would go wrong without the line of `src/` that it guards. Both tools run the same models, and must
//! reach the same outcomes: a search that was cut, or went blind, fails.
//!
//! In every model, every invariant of the pool is asserted at the end of each critical section, and
//! in those of two actors every foreign call
//! re-enters the pool.

mod rig;

mod background_spawn_x_get;
mod clean_x_get;
mod close_x_waiter;
mod first_spawn_x_two_gets;
mod get_x_session_close;
mod restart_x_spawn;
mod session_close_x_detach;
mod two_groups_x_eviction;
mod waiter_x_cancel;
mod waiter_x_time_out;
