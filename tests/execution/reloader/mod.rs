//! The reloader: Rails' suite, and the library's further promises.

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
