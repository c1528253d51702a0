//! The application pool lends sessions with the processes of applications.
//!
//! A [`get`](ApplicationPool::get) returns a session with the least busy process of an application. The pool spawns
//! processes as they are needed, up to a limit, shuts idle ones down, and restarts those with old code.
//!
//! A program implements [`Spawner`], which starts its processes, and [`Process`], which connects to one.
//! The module `in_memory` has both, for tests (feature `in-memory`).
//!
//! ```
//! use cabrank::application_pool::GetError;
//! use cabrank::in_memory::InMemorySpawner;
//! use cabrank::{ApplicationPool, PoolOptions};
//! use std::time::Duration;
//!
//! let pool = ApplicationPool::builder(InMemorySpawner::new()).max(4).build()?;
//! let shop = PoolOptions::new("/srv/shop").with_max_queue(100);
//! match pool.get_timeout(&shop, Duration::from_secs(10)) {
//!     Ok(session) => println!("{}", session.request("hello")), // its drop ends the session
//!     Err(GetError::QueueFull { .. } | GetError::TimedOut) => println!("try again later"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//! One lock protects the state. Every operation is one critical section in O(1), plus what it removes or wakes.
//! User code runs afterwards, without the lock: spawner, connect, file look-up, wakers, observer and
//! drops of the user's values. A section that frees a process or capacity grants it to the oldest waiter before it
//! ends. So no caller overtakes another, and no wake-up is lost.
//!
//! # Limits
//! - A [`Snapshot`] of more than 512 groups and processes is copied in slices, each in a section of its own: its
//!   groups are shown at different moments.
//! - A group without a process waits at most `drain_timeout` for the place of another. A group with processes whose gets
//!   are not served for that time gets the place of an idle process. A get waits longer if sessions that do not end hold
//!   every process of its own group while the others are busy, or disabled processes every place: use `get_timeout`.
//! - The pool keeps a group's record (its restart file's state, its last error) until
//!   [`ApplicationPool::detach_group`], or for the time that [`Builder::forget_groups_after`] sets.
//!
//! # Origin
//! *ApplicationPool algorithm* (Phusion Passenger 3.0.5) describes the pool in pseudocode. The code keeps its
//! names. Where the pseudocode is wrong, the code differs and cites an erratum of `spec/src/application_pool/rules.rs`.
//!
//! | in the pseudocode | here | as a state machine in `spec/src/application_pool/` |
//! |---|---|---|
//! | `PoolOptions` | `options.rs` | `configuration.rs` |
//! | `Group`, `ProcessInfo`, instance variables | `group.rs`, `process_info.rs`, `entry.rs`, `state.rs` | `pool.rs` |
//! | `mutate_active`, `mutate_count`, `mutate_max`, `global_queue_position_became_available` | `state.rs` | `mutators.rs` |
//! | `get` | `get.rs` | `get.rs` |
//! | `detach` | `pool.rs` | `action.rs` |
//! | `checkout_without_lock`, `select_process`, `needs_restart` | `checkout.rs`, `restart_files.rs`, `looking.rs` | `checkout.rs`, `restart.rs` |
//! | `spawning_allowed`, `new_app_group_creatable` | `capacity.rs` | `capacity.rs` |
//! | `spawn_in_background`, `spawner_thread_callback` | `spawning.rs` | `spawning.rs` |
//! | `detach_without_lock`, `detach_group_without_lock` | `detach.rs` | `detach.rs` |
//! | `session_has_been_closed` | `session.rs` | `session.rs` |
//! | `cleaner` | `cleaner.rs` | `cleaner.rs` |
//! | invariants | `invariants.rs` | `invariants.rs` |
//!
//! The state machine is explored completely, and the refinement tests compare this pool with it.

mod back_off;
mod builder;
mod capacity;
mod checkout;
mod cleaner;
mod close_timed_out;
mod detach;
mod disabling;
mod effects;
mod ending;
mod entry;
mod error;
mod event;
mod forgetting;
mod get;
mod group;
mod group_name;
#[cfg(feature = "in-memory")]
pub mod in_memory;
mod inactive_apps;
mod inner;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod looking;
mod looks;
mod options;
mod pool;
mod process_info;
mod restart_files;
mod run_effects;
mod session;
mod snapshot;
mod spawn_order;
mod spawner;
mod spawning;
mod standing;
mod state;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod steps_tests;
mod table_keys;
mod totals;

pub use builder::Builder;
pub use close_timed_out::CloseTimedOut;
pub use error::{BuildError, ConnectError, GetError, SpawnError};
pub use event::{DetachReason, Event};
pub use options::{PoolOptions, RestartMode};
pub use pool::{ApplicationPool, WeakPool};
pub use session::{Lease, Session};
pub use snapshot::{Counts, GroupSnapshot, ProcessSnapshot, ProcessState, Snapshot};
pub use spawner::{CancelToken, Identifier, Process, ShutDown, SpawnRequest, Spawner};
pub use totals::Totals;

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use {
    ending::{Ending, Found},
    inner::{Inner, WaitForEnd},
    looking::Looked,
    restart_files::Seen,
    state::End,
};
