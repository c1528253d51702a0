//! The agent from the outside: the real binary, real applications, real signals.
//!
//! Each test has an agent of its own, on a free port, with an instance directory of its own. Nothing
//! sleeps to let something happen: what is waited for is asked for until a deadline.

mod agent;
mod http;

mod connections;
mod crashes;
mod hosts;
mod logs;
mod protocol;
mod restarts;
mod serving;
mod shutdown;
mod wrong_input;
