//! Pools of connections to PostgreSQL, Redis, SQLite and HTTP servers: factories to copy into a program.
//!
//! Each module has a factory, and a pool of it with the options that such connections need. The tests in `tests/` start
//! real servers, kill them, and restart them.
//!
//! - [`http_tasks`]: `hyper`, for tasks.
//! - [`postgres_tasks`]: `tokio-postgres`, for tasks.
//! - [`postgres_threads`]: `postgres`, for threads.
//! - [`redis_threads`]: `redis`, for threads.
//! - [`sqlite`]: `rusqlite`, for threads.

pub mod http_tasks;
pub mod postgres_tasks;
pub mod postgres_threads;
pub mod redis_threads;
pub mod sqlite;
