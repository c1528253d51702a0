//! Tests of the reloader. `conformance` restates the tests of Rails' reloader.

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
