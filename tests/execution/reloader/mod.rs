//! Tests of the reloader. `conformance` restates the tests of Rails' reloader.

mod back_off;
mod changes;
mod conformance;
mod failures;
mod nesting;
mod noting;
mod steps;
mod succeeding;
mod waiting;
mod watch_files;
