//! The application pool: who wants a session with an application gets one of its processes.
//!
//! # Reading it beside the pseudocode
//! The text is *ApplicationPool algorithm* (Phusion Passenger 3.0.5); names are kept, errors of the
//! text are numbered (E1 to E34) where the code differs from it.
//!
//! | in the text | here | as a pure machine |
//! |---|---|---|
//! | `PoolOptions` | [`PoolOptions`] | `spec/src/configuration.rs` |
//! | `Group`, `ProcessInfo`, instance variables | `group.rs`, `process_info.rs`, `state.rs` | `pool.rs` |
//! | `mutate_active`, `mutate_count`, `mutate_max`, `global_queue_position_became_available` | `state.rs` | `mutators.rs` |
//! | `get` | [`ApplicationPool::get`], `mod.rs` | `get.rs` |
//! | `detach` | [`ApplicationPool::detach`], `mod.rs` | `action.rs` |
//! | `checkout_without_lock`, `select_process`, `needs_restart` | `checkout.rs`, `restart_files.rs` | `checkout.rs`, `restart.rs` |
//! | `spawning_allowed`, `new_app_group_creatable` | `capacity.rs` | `capacity.rs` |
//! | `spawn_in_background`, `spawner_thread_callback` | `spawning.rs` | `spawning.rs` |
//! | `detach_without_lock`, `detach_group_without_lock` | `detach.rs` | `detach.rs` |
//! | `session_has_been_closed` | `session.rs` | `session.rs` |
//! | `cleaner` | `cleaner.rs` | `cleaner.rs` |
//! | invariants | `invariants.rs` | `invariants.rs` |
//!
//! The machine of `spec/` was explored to the last state, and `tests/application_pool/refinement` holds this pool against it.
//!
//! # How it works
//! One lock, and under it only arithmetic: every operation is one critical section in O(1), plus what
//! it removes or wakes. What runs foreign code (spawner, connect, file look-up, wakers, observers, the
//! drop of a user's value) is left to be done after the lock is released (`effects.rs`). A process
//! or capacity that becomes free is handed, under the lock, to whoever has waited for it longest, so
//! nobody overtakes and no wake-up is lost (`wait_queue.rs`).
//!
//! # Limits
//! - A [`Snapshot`] is one consistent picture, so it copies plain numbers of all processes under the
//!   lock: the one section whose length depends on how many there are.
//! - The search for an idle process to evict or to clean passes over processes that a minimum
//!   protects.
//! - A group's record (its restart file's state, its last error) is kept until
//!   [`ApplicationPool::detach_group`].

mod builder;
mod capacity;
mod checkout;
mod cleaner;
mod detach;
mod effects;
mod error;
mod event;
mod get;
mod group;
#[cfg(feature = "in-memory")]
pub mod in_memory;
mod inner;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
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
mod state;
mod totals;
mod works_for;

pub use builder::Builder;
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
    inner::{Inner, WaitForEnd},
    session::{Ending, Found},
    state::End,
};
