//! Tests of the executor. `hooks` restates the tests of Rails' executor.

mod futures;
mod hooks;
mod nesting;
mod per_execution;
mod time_limits;
