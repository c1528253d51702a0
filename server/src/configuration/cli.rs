//! The command line.
//!
//! One struct holds the options of `start` from all three sources. clap fills it from the command line
//! and the environment, and serde from `cabrank.toml`.

use crate::configuration::custom_types::AppTypeOption;
use crate::configuration::values::{
    Address, AtLeastOne, BodySize, BufferSize, Count, HeadSize, LogFormat, LogLevel, Pid, Port,
    Seconds, SpawnMethod, Threads,
};
use crate::failure::EXIT_CODES;
use crate::request::networks::Networks;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Deserialize;
use std::path::PathBuf;

/// Serves web applications through a pool of processes.
#[derive(Debug, Parser)]
#[command(name = "cabrank", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Parses the command line and the environment. Exits with a message if they are wrong.
    pub(crate) fn read() -> Cli {
        let matches = Cli::declaration().try_get_matches();
        matches.and_then(|m| Cli::of(&m)).unwrap_or_else(|e| with_origin(e).exit())
    }

    fn of(matches: &ArgMatches) -> Result<Cli, clap::Error> {
        let mut cli = Cli::from_arg_matches(matches)?;
        if let (Command::Start(args), Some((_, start))) = (&mut cli.command, matches.subcommand()) {
            let is_variable = |id: &str| start.value_source(id) == Some(ValueSource::EnvVariable);
            let variables = start.ids().map(|id| id.as_str()).filter(|id| is_variable(id));
            args.from_environment = variables.map(str::to_owned).collect();
        }
        Ok(cli)
    }

    fn declaration() -> clap::Command {
        // A negative number is a bad value, whose error names the bounds, and not an unknown option.
        Cli::command().mut_subcommands(|c| {
            c.mut_args(|arg| {
                let takes_values = arg.get_action().takes_values();
                // The help explains how variables are named, so it does not list each of them.
                arg.allow_negative_numbers(takes_values).hide_env(true)
            })
        })
    }
}

/// Returns whether an option has this name in the file.
pub(crate) fn is_option(name: &str) -> bool {
    let options = Options::augment_args(clap::Command::new("start"));
    options.get_arguments().any(|option| option.get_id() == name)
}

/// Names the environment variable in the error if the bad value comes from there.
fn with_origin(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(option)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let name = option.split(['=', '[', ' ']).next().unwrap_or_default().trim_start_matches('-');
    let variable = format!("CABRANK_{}", name.replace('-', "_").to_uppercase());
    if std::env::var_os(&variable).is_some_and(|v| v == **value) {
        let tip = format!("the value comes from the environment variable {variable}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the application in a directory until a signal or `cabrank stop`
    #[command(after_help = format!("{AFTER_START}\n\n{EXIT_CODES}"))]
    Start(Box<StartArgs>),
    /// Show the processes and queues of a running server
    Status(StatusArgs),
    /// Shut down a running server gracefully
    Stop(InstanceArgs),
    /// Replace the processes of a running server
    Restart(InstanceArgs),
    /// Remove one application process from a running server's pool
    Detach(ProcessArgs),
    /// Give one application process no more requests, but keep it
    Disable(ProcessArgs),
    /// Give a disabled application process requests again
    Enable(ProcessArgs),
}

const AFTER_START: &str = "\
Every option is also an environment variable (CABRANK_MAX_POOL_SIZE=6 for --max-pool-size 6) and a
key of DIR/cabrank.toml (max_pool_size = 6). The command line overrides the environment, and the
environment overrides the file.

Without --environment, the variable of the application's type names the environment (WSGI_ENV, or
NODE_ENV), else the first of PASSENGER_APP_ENV, RAILS_ENV, RACK_ENV, WSGI_ENV and NODE_ENV that is set.

`start` boots the application before it accepts requests. If the boot fails, `start` prints the
reason and exits with code 5. If a later boot fails, after a restart, clients get an error page.

SIGTERM, SIGINT (Ctrl-C), SIGQUIT and SIGHUP shut the server down gracefully: it finishes open
requests first. A second signal, at least half a second later, ends it at once. The server ignores
SIGHUP if it was started so, as under nohup.

If root starts cabrank, --user names the user that runs the application. Another user must be able to
enter the directory of TMPDIR (/tmp by default), which then holds the sockets.";

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The application's directory
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) options: Options,
    /// On a restart, replace all processes at once (the default in other environments)
    #[arg(long, conflicts_with = "rolling_restarts", help_heading = "Restarts")]
    pub(crate) no_rolling_restarts: bool,
    /// Never send a request to a second process
    #[arg(long, conflicts_with = "retry_requests", help_heading = "Limits")]
    pub(crate) no_retry_requests: bool,
    /// The options that come from the environment, by their names in the file.
    #[arg(skip)]
    pub(crate) from_environment: Vec<String>,
}

/// The options of a server. [`Settings`](crate::configuration::Settings) has the defaults of those left out.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, short, env = "CABRANK_ADDRESS", value_name = "IP")]
    pub(crate) address: Option<Address>,
    /// The port to listen on; 0: any free port [default: 3000]
    #[arg(long, short, env = "CABRANK_PORT", value_name = "PORT")]
    pub(crate) port: Option<Port>,
    /// The proxies whose X-Forwarded-* and Forwarded headers are believed: addresses and networks,
    /// separated by commas, such as 127.0.0.1,10.0.0.0/8 [default: no proxy]
    #[arg(long, env = "CABRANK_TRUSTED_PROXIES", value_name = "NETWORKS")]
    pub(crate) trusted_proxies: Option<Networks>,
    /// The environment of the application, such as production [default: by WSGI_ENV, NODE_ENV and
    /// the like, else development]
    #[arg(long, short, env = "CABRANK_ENVIRONMENT", value_name = "NAME")]
    pub(crate) environment: Option<String>,
    /// The number of threads that serve requests [default: one for each core,
    /// and for Ruby and Python one for each two cores]
    #[arg(long, env = "CABRANK_THREADS", value_name = "N")]
    pub(crate) threads: Option<Threads>,

    /// The largest number of application processes [default: 6]
    #[arg(long, env = "CABRANK_MAX_POOL_SIZE", value_name = "N", help_heading = "Pool")]
    pub(crate) max_pool_size: Option<AtLeastOne>,
    /// The number of processes to keep even if idle [default: 1]
    #[arg(long, env = "CABRANK_MIN_INSTANCES", value_name = "N", help_heading = "Pool")]
    pub(crate) min_instances: Option<Count>,
    /// The largest number of processes of one application; 0: no limit [default: 0]
    #[arg(long, env = "CABRANK_MAX_INSTANCES_PER_APP", value_name = "N", help_heading = "Pool")]
    pub(crate) max_instances_per_app: Option<Count>,
    /// Shut a process down after this idle time; 0: never [default: 300]
    #[arg(long, env = "CABRANK_POOL_IDLE_TIME", value_name = "SECONDS", help_heading = "Pool")]
    pub(crate) pool_idle_time: Option<Seconds>,
    /// Replace a process after this many requests; 0: never [default: 0]
    #[arg(long, env = "CABRANK_MAX_REQUESTS", value_name = "N", help_heading = "Pool")]
    pub(crate) max_requests: Option<Count>,
    /// The largest number of requests that wait for a process; 0: no limit [default: 100]
    #[arg(long, env = "CABRANK_MAX_REQUEST_QUEUE_SIZE", value_name = "N", help_heading = "Pool")]
    pub(crate) max_request_queue_size: Option<Count>,
    /// Override the number of requests that a process handles at once; 0: any number
    #[arg(
        long,
        env = "CABRANK_FORCE_MAX_CONCURRENT_REQUESTS_PER_PROCESS",
        value_name = "N",
        help_heading = "Pool"
    )]
    pub(crate) force_max_concurrent_requests_per_process: Option<Count>,

    /// The type of the application: rack, wsgi, asgi, python, node, generic, or one that DIR/cabrank.toml
    /// defines [default: by the startup file in DIR]
    #[arg(long, env = "CABRANK_APP_TYPE", value_name = "TYPE", help_heading = "Application")]
    pub(crate) app_type: Option<AppTypeOption>,
    /// The file that starts the application [default: by type]
    #[arg(long, env = "CABRANK_STARTUP_FILE", value_name = "FILE", help_heading = "Application")]
    pub(crate) startup_file: Option<String>,
    /// The command that starts an application which has no loader, such as './server --port $PORT'. The
    /// application serves HTTP on the port $PORT of 127.0.0.1, or on the Unix socket $SOCKET [default: the line
    /// `web` of DIR/Procfile, if DIR has no startup file]
    #[arg(
        long,
        env = "CABRANK_START_COMMAND",
        value_name = "COMMAND",
        help_heading = "Application"
    )]
    pub(crate) start_command: Option<String>,
    /// The number of requests that one process serves at once, each on a thread of its own; for Rack and WSGI
    /// applications that are thread-safe [default: 1]
    #[arg(long, env = "CABRANK_APP_THREADS", value_name = "N", help_heading = "Application")]
    pub(crate) app_threads: Option<Threads>,
    /// Give Rack applications `rack.early_hints`, which sends an answer 103 before the answer. Rails does so for its
    /// style sheets and scripts. Old browsers and proxies, such as nginx before 1.29, do not understand it
    #[arg(
        long,
        env = "CABRANK_EARLY_HINTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "Application"
    )]
    pub(crate) early_hints: Option<bool>,
    /// The user that runs the application's processes, if root starts cabrank [default: the caller]
    #[arg(long, env = "CABRANK_USER", value_name = "NAME", help_heading = "Application")]
    pub(crate) user: Option<String>,
    /// The Ruby interpreter [default: ruby]
    #[arg(long, env = "CABRANK_RUBY", value_name = "COMMAND", help_heading = "Application")]
    pub(crate) ruby: Option<PathBuf>,
    /// The Python interpreter [default: python3]
    #[arg(long, env = "CABRANK_PYTHON", value_name = "COMMAND", help_heading = "Application")]
    pub(crate) python: Option<PathBuf>,
    /// The Node.js interpreter [default: node]
    #[arg(long, env = "CABRANK_NODEJS", value_name = "COMMAND", help_heading = "Application")]
    pub(crate) nodejs: Option<PathBuf>,
    /// The time that a process has to become ready [default: 90]
    #[arg(
        long,
        env = "CABRANK_START_TIMEOUT",
        value_name = "SECONDS",
        help_heading = "Application"
    )]
    pub(crate) start_timeout: Option<Seconds>,

    /// How processes start: each loads the application (direct), or a preloader loads it once and forks
    /// them (smart; for Ruby and Python, and types with a preloader) [default: direct]
    #[arg(long, env = "CABRANK_SPAWN_METHOD", value_name = "METHOD", help_heading = "Application")]
    pub(crate) spawn_method: Option<SpawnMethod>,
    /// The time after which an unused preloader leaves; 0: never [default: 300]
    #[arg(
        long,
        env = "CABRANK_MAX_PRELOADER_IDLE_TIME",
        value_name = "SECONDS",
        help_heading = "Application"
    )]
    pub(crate) max_preloader_idle_time: Option<Seconds>,

    /// The directory of restart.txt, absolute or below DIR [default: tmp]
    #[arg(long, env = "CABRANK_RESTART_DIR", value_name = "DIR", help_heading = "Restarts")]
    pub(crate) restart_dir: Option<PathBuf>,
    /// On a restart, replace processes one by one (the default in production and staging)
    #[arg(
        long,
        env = "CABRANK_ROLLING_RESTARTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "Restarts"
    )]
    pub(crate) rolling_restarts: Option<bool>,
    /// The shortest time between two checks of the restart files [default: 0.05]
    #[arg(
        long,
        env = "CABRANK_STAT_THROTTLE_RATE",
        value_name = "SECONDS",
        help_heading = "Restarts"
    )]
    pub(crate) stat_throttle_rate: Option<Seconds>,

    /// The largest head of a request [default: 65536]
    #[arg(long, env = "CABRANK_MAX_HEADER_SIZE", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_header_size: Option<HeadSize>,
    /// The largest body of a request; 0: no limit [default: 0]
    #[arg(long, env = "CABRANK_MAX_BODY", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_body: Option<BodySize>,
    /// The largest part of a body that waits in memory for the rest; 0: bodies are passed on as they come
    /// [default: 65536]
    #[arg(long, env = "CABRANK_BUFFER_REQUEST", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) buffer_request: Option<BufferSize>,
    /// The largest part of a body that waits in a file for the rest, before it takes a process
    /// [default: 1073741824]
    #[arg(
        long,
        env = "CABRANK_MAX_BUFFERED_REQUEST",
        value_name = "BYTES",
        help_heading = "Limits"
    )]
    pub(crate) max_buffered_request: Option<BodySize>,
    /// The largest part of an answer that waits in a file for its client [default: 1073741824]
    #[arg(
        long,
        env = "CABRANK_MAX_BUFFERED_ANSWER",
        value_name = "BYTES",
        help_heading = "Limits"
    )]
    pub(crate) max_buffered_answer: Option<BodySize>,
    /// End a process that works on one request for longer; 0: no limit [default: 0]
    #[arg(long, env = "CABRANK_MAX_REQUEST_TIME", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) max_request_time: Option<Seconds>,
    /// Answer 503 to a request that waits for a process for longer; 0: no limit [default: 0]
    #[arg(
        long,
        env = "CABRANK_MAX_REQUEST_QUEUE_TIME",
        value_name = "SECONDS",
        help_heading = "Limits"
    )]
    pub(crate) max_request_queue_time: Option<Seconds>,
    /// Send a request to another process if its process has died, where that is safe [default: true]
    #[arg(
        long,
        env = "CABRANK_RETRY_REQUESTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "Limits"
    )]
    pub(crate) retry_requests: Option<bool>,
    /// The largest number of clients' connections [default: by the limit of open files]
    #[arg(long, env = "CABRANK_MAX_CONNECTIONS", value_name = "N", help_heading = "Limits")]
    pub(crate) max_connections: Option<AtLeastOne>,
    /// The largest number of requests in progress, for processes that take any number at once; further requests
    /// wait as they do for a process [default: by the limit of open files]
    #[arg(
        long,
        env = "CABRANK_MAX_REQUESTS_IN_PROGRESS",
        value_name = "N",
        help_heading = "Limits"
    )]
    pub(crate) max_requests_in_progress: Option<AtLeastOne>,
    /// The longest time between two requests of a connection; 0: no limit [default: 60]
    #[arg(
        long,
        env = "CABRANK_KEEP_ALIVE_TIMEOUT",
        value_name = "SECONDS",
        help_heading = "Limits"
    )]
    pub(crate) keep_alive_timeout: Option<Seconds>,
    /// The least rate of a client that sends a body or reads an answer, in bytes per second; 0: none
    /// [default: 500]
    #[arg(long, env = "CABRANK_MIN_CLIENT_RATE", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) min_client_rate: Option<BodySize>,
    /// The longest time for the head of a request; 0: no limit [default: 60]
    #[arg(long, env = "CABRANK_HEADER_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) header_timeout: Option<Seconds>,
    /// The longest pause of a client that sends or receives a body; 0: no limit [default: 60]
    #[arg(long, env = "CABRANK_CLIENT_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) client_timeout: Option<Seconds>,
    /// The time that a shutdown gives to open requests [default: 60]
    #[arg(long, env = "CABRANK_SHUTDOWN_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_timeout: Option<Seconds>,

    /// Log the lines that the application prints, at every level [default: true]
    #[arg(
        long,
        env = "CABRANK_APP_OUTPUT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_name = "BOOL",
        help_heading = "Logs"
    )]
    pub(crate) app_output: Option<bool>,
    /// The least severe level of the server's own lines [default: info]
    #[arg(long, env = "CABRANK_LOG_LEVEL", value_name = "LEVEL", help_heading = "Logs")]
    pub(crate) log_level: Option<LogLevel>,
    /// The format of log lines [default: text]
    #[arg(long, env = "CABRANK_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logs")]
    pub(crate) log_format: Option<LogFormat>,
}

/// The choice among running servers.
#[derive(Debug, Args)]
pub(crate) struct InstanceArgs {
    /// The pid of the server; required if several are running
    #[arg(long, value_name = "PID")]
    pub(crate) instance: Option<Pid>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
    /// Print the complete report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessArgs {
    /// The pid of the process, from `cabrank status`
    pub(crate) pid: Pid,
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_declaration() {
        Cli::declaration().debug_assert();
    }

    #[test]
    fn every_option_has_an_environment_variable_of_its_name() {
        let mut cli = Cli::declaration();
        let start = cli.find_subcommand_mut("start").unwrap();
        for arg in start.get_arguments() {
            let id = arg.get_id().as_str();
            if ["dir", "no_rolling_restarts", "no_retry_requests", "help"].contains(&id) {
                continue;
            }
            let expected = format!("CABRANK_{}", id.to_uppercase());
            assert_eq!(arg.get_env().and_then(|e| e.to_str()), Some(&expected[..]));
        }
    }
}
