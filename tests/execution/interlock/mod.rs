//! The load interlock: what the originals' tests check (R1 to R32), that the defects of the original
//! are absent (D1 to D5), that everything comes to its end (L1 to L6), and what this one adds.

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
mod promises;
mod random;
mod tasks;
mod told_families;
mod told_threads;
mod variants;
