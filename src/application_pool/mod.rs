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
//! | `PoolOptions` | `api/options.rs` | `configuration.rs` |
//! | `Group`, `ProcessInfo`, instance variables | `group.rs`, `process_info.rs`, `entry.rs` and `state.rs` in `state/` | `pool.rs` |
//! | `mutate_active`, `mutate_count`, `mutate_max`, `global_queue_position_became_available` | `state/state.rs`, `state/settle.rs` | `mutators.rs` |
//! | `get` | `work/getting.rs` | `get.rs` |
//! | `detach` | `api/pool.rs` | `action.rs` |
//! | `checkout_without_lock`, `select_process`, `needs_restart` | `state/checkout.rs`, `state/look.rs`, `work/restart_files.rs`, `work/looker.rs` | `checkout.rs`, `restart.rs` |
//! | `spawning_allowed`, `new_app_group_creatable` | `state/capacity.rs` | `capacity.rs` |
//! | `spawn_in_background`, `spawner_thread_callback` | `state/spawning.rs`, `work/spawner_thread.rs` | `spawning.rs` |
//! | `detach_without_lock`, `detach_group_without_lock` | `state/detach.rs` | `detach.rs` |
//! | `session_has_been_closed` | `api/session.rs`, `state/session_end.rs` | `session.rs` |
//! | `cleaner` | `state/cleaner.rs`, `work/cleaner_thread.rs` | `cleaner.rs` |
//! | invariants | `state/invariants.rs` | `invariants.rs` |
//!
//! The state machine is explored completely, and the refinement tests compare this pool with it.

mod api;
#[cfg(feature = "in-memory")]
pub mod in_memory;
mod state;
mod work;

pub use api::{
    ApplicationPool, BuildError, Builder, CancelToken, CloseTimedOut, ConnectError, Counts,
    DetachReason, Event, GetError, GroupSnapshot, Identifier, Lease, PoolOptions, Process,
    ProcessSnapshot, ProcessState, RestartMode, Session, ShutDown, Snapshot, SpawnError,
    SpawnRequest, Spawner, Totals, WeakPool,
};

#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
pub(crate) use {
    state::ending::{Ending, Found},
    state::look::Seen,
    state::looks::Looked,
    state::state::End,
    work::inner::{Inner, WaitForEnd},
};
