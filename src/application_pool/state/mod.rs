//! The state of the pool, and its changes under the lock. It knows no thread and no pool, and calls no value of the user's.

mod back_off;
pub(crate) mod begun;
mod capacity;
pub(crate) mod checkout;
mod cleaner;
pub(crate) mod copying;
mod detach;
mod disabling;
pub(crate) mod effects;
pub(crate) mod ending;
pub(crate) mod entry;
mod forgetting;
mod group;
pub(crate) mod inactive_apps;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
pub(crate) mod look;
mod looking;
pub(crate) mod looks;
mod process_info;
mod session_end;
mod settle;
pub(crate) mod spawn_order;
pub(crate) mod spawning;
mod standing;
#[expect(clippy::module_inception, reason = "the state itself")]
pub(crate) mod state;
#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod steps_tests;
pub(crate) mod table_keys;
