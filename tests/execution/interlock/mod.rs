//! Tests of the load interlock.

pub(crate) mod actor;
mod conformance;
mod deadlock_families;
mod deadlock_threads;
mod defects;
mod dump;
mod executions;
mod fairness;
mod forsaken;
mod giving_up;
mod liveness;
mod loaded;
mod no_deadlock;
mod random;
mod tasks;
mod variants;
