//! `cabrank`: serves web applications through the cabrank application pool.
//!
//! The library knows nothing of the operating system; everything that does is here. From the outside
//! in:
//!
//! - [`config`]: the command line, the environment and `cabrank.toml`, and what follows from them;
//! - [`start`]: the life of one agent, from binding the port to the last process's end, and the
//!   [`signals`] that tell it to stop;
//! - [`front`]: the HTTP server, one request through the pool, and the two protocols to the processes;
//! - [`app`]: application processes: the handshake, the spawner, a process's life and end;
//! - [`instance_dir`]: the agent's directory, by which tools find it;
//! - [`regular_file`]: what is looked at before a file of the user's is opened;
//! - [`admin`]: what the running agent tells `cabrank status` and its like;
//! - [`logging`]: events on their way to standard error, through a queue ([`log_queue`]).

mod admin;
mod app;
mod config;
mod failure;
mod front;
mod instance_dir;
mod log_queue;
mod logging;
mod regular_file;
mod signals;
mod start;

use config::cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Cli::read().command {
        Command::Start(args) => start::run(args),
        Command::Status(args) => admin::client::status(&args),
        Command::Stop(args) => admin::client::stop(&args),
        Command::Restart(args) => admin::client::restart(&args),
        Command::Detach(args) => admin::client::detach(&args),
    };
    let code = match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            logging::last_word(&format!("cabrank: {failure}"));
            failure.exit_code()
        }
    };
    logging::flush();
    code
}
