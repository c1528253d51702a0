//! The state of the pool, and its changes under the lock. It knows no thread and no pool, and calls no value of the user's.

pub(crate) mod began;
mod copying;
mod due;
pub(crate) mod effects;
pub(crate) mod filling;
mod grants;
mod idle;
mod in_test;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
pub(crate) mod keys;
mod line;
pub(crate) mod loan;
pub(crate) mod maintenance_task;
pub(crate) mod names;
pub(crate) mod options;
mod orders;
pub(crate) mod refill;
pub(crate) mod refusal;
mod settle;
pub(crate) mod slot;
#[expect(clippy::module_inception, reason = "the state itself")]
pub(crate) mod state;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod steps_tests;
mod victim;
pub(crate) mod waiting;
