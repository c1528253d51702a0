//! The load interlock: Rails' suite, the absence of Rails' defects, liveness, and the library's further promises.

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
