//! End-to-end tests of the agent: the real binary, real applications, real signals.
//!
//! Each test has its own agent, on a free port, with its own instance directory. A test that expects a
//! change polls for it until a deadline.

mod agent;
mod http;

mod budget;
mod conformance;
mod connections;
mod costs;
mod crashes;
mod disk_full;
mod environments;
mod hosts;
mod instance_dirs;
mod kept;
mod killed;
mod logs;
mod node;
mod protocol;
mod proxies;
mod requests;
mod restarts;
mod serving;
mod shutdown;
mod slow_clients;
mod users;
mod wrong_input;
