//! `cabrank`: serves web applications through the cabrank application pool.
//!
//! The library does not depend on the operating system; the agent holds all code that does. From the
//! outside in:
//!
//! - [`config`]: the command line, the environment and `cabrank.toml`, and the settings they yield;
//! - [`start`]: the life of one agent, from binding the port to the end of the last process, and the
//!   [`signals`] that stop it;
//! - [`front`]: the HTTP server, the path of one request through the pool, and the two protocols
//!   between agent and processes;
//! - [`app`]: application processes: the handshake, the spawner, the life and end of a process;
//! - [`http`]: HTTP types that `front` and `app` share;
//! - [`instance_dir`]: the agent's directory, where tools find the agent;
//! - [`random`]: random names and passwords;
//! - [`regular_file`]: the check before the agent opens a file of the user;
//! - [`admin`]: the tools' socket: `cabrank status`, `stop`, `restart`, `detach`;
//! - [`logging`]: log lines to standard error, through a queue ([`log_queue`]).

mod admin;
mod app;
mod chain;
mod config;
mod failure;
mod front;
mod http;
mod instance_dir;
mod log_queue;
mod logging;
mod random;
mod regular_file;
mod signals;
mod start;

use app::{prepare, watchdog};
use config::cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    // The agent starts its own binary for these; no user calls them.
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == prepare::COMMAND => return prepare::run(arguments),
        Some(first) if first == watchdog::COMMAND => return watchdog::run(arguments),
        _ => {}
    }
    let result = match Cli::read().command {
        Command::Start(args) => start::run(args),
        Command::Status(args) => admin::client::status(&args),
        Command::Stop(args) => admin::client::stop(&args),
        Command::Restart(args) => admin::client::restart(&args),
        Command::Detach(args) => admin::client::detach(&args),
        Command::Disable(args) => admin::client::disable(&args),
        Command::Enable(args) => admin::client::enable(&args),
    };
    let code = match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            logging::final_message(&format!("cabrank: {failure}"));
            failure.exit_code()
        }
    };
    logging::flush();
    code
}
