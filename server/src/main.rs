//! `cabrank`: serves web applications through the cabrank application pool.
//!
//! Application processes are the business of [`cabrank_spawner`]; this crate is the server before them. From the
//! outside in:
//!
//! - [`config`]: the command line, the environment and `cabrank.toml`, and the settings they yield;
//! - [`start`]: the life of one server, from binding the port to the end of the last process, and the
//!   [`signals`] that stop it;
//! - [`front`]: the HTTP server, the path of one request through the pool, and the two protocols
//!   between server and processes;
//! - [`http`]: parsers and encoders of HTTP, without I/O;
//! - [`regular_file`]: the check before the server opens a file of the user;
//! - [`admin`]: the tools' socket: `cabrank status`, `stop`, `restart`, `detach`;
//! - [`logging`]: log lines to standard error, through a queue ([`log_queue`]).

mod admin;
mod config;
mod failure;
mod front;
mod http;
mod log_queue;
mod logging;
mod regular_file;
mod signals;
mod start;

use config::cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let helper = cabrank_spawner::helper();
    let result = match Cli::read().command {
        Command::Start(args) => start::run(args, helper),
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
