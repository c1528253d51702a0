//! A formally checked, lock-based pool of application processes: the *ApplicationPool algorithm* of
//! Phusion Passenger, as a library.
//!
//! A `get` returns a session with the least busy process of an application. The pool spawns processes as they are
//! needed and queues gets while all are busy. It restarts processes when a restart file changes, and shuts idle
//! ones down.
//!
//! ```
//! use cabrank::in_memory::InMemorySpawner;
//! use cabrank::{ApplicationPool, PoolOptions};
//!
//! let pool = ApplicationPool::builder(InMemorySpawner::new()).max(4).build()?;
//! let shop = PoolOptions::new("/srv/shop").with_min_processes(1);
//!
//! let session = pool.get(&shop)?; // spawns the first process
//! assert_eq!(session.request("hello"), "hello from /srv/shop");
//! drop(session); // the process is idle again
//!
//! assert_eq!(pool.snapshot().count, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where things are
//! - [`application_pool`]: lends sessions with application processes.
//! - [`periodic_executor`]: calls a target again and again, and sleeps without polling in between.
//! - [`execution`]: runs application code between hooks ([`Executor`]), and loads ([`Interlock`]) and reloads
//!   ([`Reloader`]) code while other threads run it.
//! - [`resource_pool`]: lends resources that are costly to create, with keys and without.
//! - `in_memory`: a scriptable spawner for the tests of the library's users (feature `in-memory`).
//! - [`Clock`] and [`ManualClock`]: monotonic time, and time that a test advances.
//!
//! # Names
//! The crate's root has the types that a program begins with. Everything else lives in the module of its system
//! and is named for it there: [`application_pool::Event`], [`resource_pool::BorrowError`],
//! [`periodic_executor::Registry`], [`execution::Execution`].
//!
//! # Conventions
//! - A limit is an [`Option`], and `None` is no limit: `max_per_app(4)`, `max_per_app(None)`. A zero that would leave a
//!   pool without a use is refused.
//! - A builder's methods are named after the option that they set, and its last method begins with `build`. A value
//!   that can be read has `with_…`, which returns a changed copy.
//! - A guard that dereferences to a value has functions instead of methods: `Session::fail(session)`.
//! - An error does not repeat the text of its [`source`](std::error::Error::source). A program prints the chain.
//! - A call that lends (`get`, `checkout`, `borrow`) has a form with a time limit, one that does not wait (`try_…`),
//!   and a future (`…_async`). Other blocking calls have a future where a task may need one.
//!
//! # Features
//! - `in-memory`: the module `in_memory`.
//! - `serde`: snapshots and the dump of an [`Interlock`] implement `Serialize`.
//! - `tokio`: `periodic_executor::Tokio` runs executors and the maintenance of pools on tokio.
//! - `metrics`, `tracing`: a resource pool with a name passes its times and events on to the crates of these names.
//! - `backtrace`: the dump of an [`Interlock`] has the backtraces of all waits.
//!
//! `loom` and `shuttle` are for the library's own models.
//!
//! # Further reading
//! `ARCHITECTURE.md` in the repository has the map of the sources, the flow of each call and a glossary.
//!
//! # How it is checked
//! The whole library runs under loom (every interleaving: `cargo test --features loom`) and under shuttle (many
//! random ones: `--features shuttle`). Builds with debug assertions assert each documented invariant at the end of
//! each critical section. In a pool of more than 32 keys or groups they assert those of the entries that the section has
//! touched, and all in every 64th section; with the feature `full-invariants`, all in each.

#[cfg(test)]
extern crate self as cabrank;

/// The README's code compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod application_pool;
pub mod execution;
mod kernel;
pub mod periodic_executor;
pub mod resource_pool;

#[cfg(feature = "in-memory")]
pub use application_pool::in_memory;
pub use application_pool::{ApplicationPool, PoolOptions, Session};
pub use execution::interlock::Interlock;
pub use execution::{Executor, Reloader};
pub use kernel::clock::{Clock, ManualClock};
pub use periodic_executor::{AsyncPeriodicExecutor, PeriodicExecutor};
pub use resource_pool::{KeyedResourcePool, ResourcePool};

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
#[path = "../models/mod.rs"]
mod models;
