//! The pools of this crate with real servers that are killed, restarted and full.
//!
//! A test whose server is not installed says so and ends. With `CABRANK_SERVERS` in the environment it fails instead.

mod http_tasks;
mod postgres_tasks;
mod postgres_threads;
mod redis_threads;
mod servers;
mod sqlite;
