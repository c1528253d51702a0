//! Tests of the load interlock.

pub(crate) mod actor;
mod conformance;
mod deadlocks;
mod defects;
mod dump;
mod edges;
mod executions;
mod liveness;
mod loaded;
mod many_wait;
mod random;
mod tasks;
mod time_limits;
