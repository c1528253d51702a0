//! Tests of the executor. `hooks` restates the tests of Rails' executor.

mod asynchronous;
mod futures;
mod hooks;
mod nesting;
