//! The load interlock: what the originals' tests check, that the defects of Rails
//! are absent, that everything comes to its end, and what this one adds.

mod actor;
mod conformance;
mod defects;
mod dump;
mod executions;
mod fairness;
mod forsaken;
mod giving_up;
mod liveness;
mod loaded;
mod not_told;
mod random;
mod tasks;
mod told_families;
mod told_threads;
mod variants;
