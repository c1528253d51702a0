//! End-to-end tests of the server: the real binary, real applications, real signals.
//!
//! Each test has its own server, on a free port, with its own instance directory. A test that expects a
//! change polls for it until a deadline.

mod app_threads;
mod asgi;
mod needs;
mod server;

mod abandoned;
mod base_uri;
mod boot_errors;
mod budget;
mod conformance;
mod connections;
mod costs;
mod crashes;
mod custom_types;
mod descriptors;
mod disk_full;
mod environments;
mod fronts;
mod frozen;
mod generic;
mod hosts;
mod inherited;
mod instance_dirs;
mod kept;
mod killed;
mod listening;
mod logs;
mod naming;
mod node;
mod overtime;
mod pm2;
mod preloading;
mod protocol;
mod proxies;
mod rack;
mod releases;
mod removals;
mod requests;
mod restarts;
mod rights;
mod runtime_threads;
mod scgi;
mod serving;
mod shutdown;
mod slow_clients;
mod start_scripts;
mod types;
mod users;
mod variables;
mod wrong_input;
