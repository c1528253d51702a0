//! The work of the pool that runs without the lock. It reaches the state through the lock alone.

mod borrow;
pub(crate) mod borrowers_time;
mod creation;
mod destroying;
pub(crate) mod dying;
pub(crate) mod home;
pub(crate) mod inner;
pub(crate) mod looking_up;
mod maintainer;
mod maintenance;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) mod observed;
#[cfg(not(any(feature = "metrics", feature = "tracing")))]
#[path = "unobserved.rs"]
pub(crate) mod observed;
mod ordering;
mod refilling;
mod reserved;
mod run_effects;
mod shortage;
mod time_limits;
#[cfg(feature = "metrics")]
pub(crate) mod to_metrics;
#[cfg(feature = "tracing")]
mod to_tracing;
mod validating;
mod waits;
