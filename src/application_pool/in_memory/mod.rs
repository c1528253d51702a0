//! A spawner whose processes live in memory, for tests of programs that use the pool.
//!
//! Each spawn follows a [`Spawn`] script: it is ready at once or after a time, waits to be released,
//! fails, hangs until it is cancelled, or panics. A process can be [killed](InMemoryProcess::kill), so
//! that connecting to it fails. Delays pass on the spawner's [`Clock`](crate::Clock), so a test with a manual
//! clock never sleeps.
//!
//! ```
//! use cabrank::in_memory::{InMemorySpawner, Spawn};
//! use cabrank::application_pool::GetError;
//! use cabrank::{ApplicationPool, PoolOptions};
//!
//! let spawner = InMemorySpawner::new();
//! let pool = ApplicationPool::builder(spawner.clone()).build()?;
//! let shop = PoolOptions::new("/srv/shop");
//!
//! spawner.next(Spawn::fail("no database"));
//! assert!(matches!(pool.get(&shop), Err(GetError::Spawn(e)) if e.to_string() == "no database"));
//! # Ok::<(), cabrank::application_pool::BuildError>(())
//! ```

mod process;
mod record;
mod script;
mod spawner;

pub use process::{Handle, InMemoryConnection, InMemoryProcess};
pub use script::{Call, Spawn};
pub use spawner::InMemorySpawner;
