//! The server of cabrank: serves web applications through the [application pool](cabrank::ApplicationPool).
//!
//! The binary `cabrank` calls [`run`] and nothing else. The package [`cabrank_spawner`] starts and watches the processes of
//! applications; this package serves their clients. Its modules, from the outside in:
//!
//! - `configuration`: the command line, the environment and `cabrank.toml`, and the value that they yield;
//! - `life`: from binding the port to the end of the last process, and the signals that stop the server;
//! - `listen`: accepts connections, within a budget of descriptors, and shares them among cores;
//! - `connection`: one client's connection, its pace and its time-outs;
//! - `request`: a request without its protocol: head, fields, origin, body;
//! - `client`: the protocols of clients;
//! - `lane`: the protocols of applications;
//! - `exchange`: one request, from its head to the end of its answer;
//! - `observe`: the log, and the record of each request;
//! - `admin`: the tools' socket: `cabrank status`, `stop`, `restart`, `detach`, `disable`, `enable`;
//! - `web_server`: `cabrank config`, the configuration of a web server in front;
//! - `failure`: the errors that end a command, and its exit codes;
//! - `properties`: for tests and fuzz targets, what each parser promises for all bytes.

mod admin;
mod client;
mod configuration;
mod connection;
mod exchange;
mod failure;
mod lane;
mod life;
mod listen;
mod observe;
#[cfg(any(test, fuzzing))]
pub mod properties;
mod request;
mod web_server;

use configuration::cli::{Cli, Command};
use observe::logging;
use std::process::ExitCode;

/// Runs the command that the command line names. Returns the exit code.
///
/// It is the whole of `main`: helper processes run this binary, too, and do not return from here.
pub fn run() -> ExitCode {
    let helper = cabrank_spawner::helper();
    let result = match Cli::read().command {
        Command::Start(args) => life::start::run(&args, helper),
        Command::Config(args) => web_server::print(&args),
        Command::List(args) => admin::list::list(&args),
        Command::Status(args) => admin::client::status(&args),
        Command::Stop(args) => admin::stop::stop(&args),
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
