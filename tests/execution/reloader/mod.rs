//! The reloader: what the original's tests check of it (R46 to R51), and what is promised beyond.

mod changes;
mod conformance;
mod dropped;
mod failures;
mod nesting;
mod noting;
mod resetting;
mod steps;
mod succeeding;
mod waiting;
