//! The pools of this crate with real servers that are killed, restarted and full.
//!
//! A test whose server is not installed fails. `cargo xtask test` leaves it out.

mod http_tasks;
mod postgres_tasks;
mod postgres_threads;
mod redis_threads;
mod servers;
mod sqlite;
