//! The command line. The options of `start` are one struct for all three sources: clap fills it from
//! the command line and the environment, serde from `cabrank.toml`.

use super::values::{
    Address, AtLeastOne, BodySize, Count, HeadSize, LogFormat, LogLevel, Pid, Port, Seconds,
};
use crate::failure::EXIT_CODES;
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
    /// From the command line and the environment; ends the program if there is something wrong.
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
        // A number below 0 is a bad value, to be told what is a good one, and not an unknown option.
        Cli::command().mut_subcommands(|c| {
            c.mut_args(|arg| {
                let takes_values = arg.get_action().takes_values();
                arg.allow_negative_numbers(takes_values)
            })
        })
    }
}

/// Says so if a bad value is from the environment: who never wrote `--port` would look for it in vain.
fn with_origin(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(option)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let name = option.split(['=', '[', ' ']).next().unwrap_or_default().trim_start_matches('-');
    let variable = format!("CABRANK_{}", name.replace('-', "_").to_uppercase());
    if std::env::var_os(&variable).is_some_and(|v| v == **value) {
        let tip = format!("the value is that of the environment variable {variable}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the application in a directory until a signal or `cabrank stop`
    #[command(after_help = AFTER_START)]
    Start(Box<StartArgs>),
    /// Show what a running agent's pool holds
    Status(StatusArgs),
    /// Shut a running agent down in good order
    Stop(InstanceArgs),
    /// Replace the processes of a running agent
    Restart(InstanceArgs),
    /// Take one application process out of a running agent's pool
    Detach(DetachArgs),
}

const AFTER_START: &str = "\
Every option is also an environment variable (--max-pool-size: CABRANK_MAX_POOL_SIZE) and a key of
DIR/cabrank.toml (max_pool_size = 6). The command line wins over the environment, the environment
over the file.

The application is booted before the first request is taken. If that fails, `start` prints why and
ends with exit code 5. A version that fails to boot later, after a restart, is answered with a page.

SIGTERM, SIGINT (Ctrl-C), SIGQUIT and SIGHUP (unless it is ignored, as under nohup) end it in good
order; one more that comes half a second later or after that ends it at once.

Exit codes: see `cabrank --help`.";

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The application's directory
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) options: Options,
    /// Replace all processes at once on a restart (the default in other environments)
    #[arg(long, conflicts_with = "rolling_restarts", help_heading = "Restarts")]
    pub(crate) no_rolling_restarts: bool,
    /// Which of the options are from the environment, by their names in the file.
    #[arg(skip)]
    pub(crate) from_environment: Vec<String>,
}

/// What may be said about an agent; what is left out has a default in
/// [`Settings`](super::Settings).
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Options {
    /// The address to listen on [default: 127.0.0.1]
    #[arg(long, short, env = "CABRANK_ADDRESS", value_name = "IP")]
    pub(crate) address: Option<Address>,
    /// The port to listen on; 0 takes a free one [default: 3000]
    #[arg(long, short, env = "CABRANK_PORT", value_name = "PORT")]
    pub(crate) port: Option<Port>,
    /// The environment that the application runs in [default: development]
    #[arg(long, short, env = "CABRANK_ENVIRONMENT", value_name = "NAME")]
    pub(crate) environment: Option<String>,

    /// How many application processes there may be [default: 6]
    #[arg(long, env = "CABRANK_MAX_POOL_SIZE", value_name = "N", help_heading = "Pool")]
    pub(crate) max_pool_size: Option<AtLeastOne>,
    /// How many processes are kept even if idle; no more than there may be [default: 1]
    #[arg(long, env = "CABRANK_MIN_INSTANCES", value_name = "N", help_heading = "Pool")]
    pub(crate) min_instances: Option<Count>,
    /// How many processes one application may have; 0: no limit [default: 0]
    #[arg(long, env = "CABRANK_MAX_INSTANCES_PER_APP", value_name = "N", help_heading = "Pool")]
    pub(crate) max_instances_per_app: Option<Count>,
    /// After how many idle seconds a process leaves; 0: never [default: 300]
    #[arg(long, env = "CABRANK_POOL_IDLE_TIME", value_name = "SECONDS", help_heading = "Pool")]
    pub(crate) pool_idle_time: Option<Seconds>,
    /// After how many requests a process is replaced; 0: never [default: 0]
    #[arg(long, env = "CABRANK_MAX_REQUESTS", value_name = "N", help_heading = "Pool")]
    pub(crate) max_requests: Option<Count>,
    /// How many requests may wait for a process; 0: no limit [default: 100]
    #[arg(long, env = "CABRANK_MAX_REQUEST_QUEUE_SIZE", value_name = "N", help_heading = "Pool")]
    pub(crate) max_request_queue_size: Option<Count>,
    /// How many requests each process is given at once, whatever it says itself; 0: any number
    #[arg(
        long,
        env = "CABRANK_FORCE_MAX_CONCURRENT_REQUESTS_PER_PROCESS",
        value_name = "N",
        help_heading = "Pool"
    )]
    pub(crate) force_max_concurrent_requests_per_process: Option<Count>,

    /// rack, wsgi or node [default: by the startup file in DIR]
    #[arg(long, env = "CABRANK_APP_TYPE", value_name = "TYPE", help_heading = "Application")]
    pub(crate) app_type: Option<String>,
    /// The file that starts the application [default: by type]
    #[arg(long, env = "CABRANK_STARTUP_FILE", value_name = "FILE", help_heading = "Application")]
    pub(crate) startup_file: Option<String>,
    /// The Python interpreter [default: python3]
    #[arg(long, env = "CABRANK_PYTHON", value_name = "COMMAND", help_heading = "Application")]
    pub(crate) python: Option<PathBuf>,
    /// The Node.js interpreter [default: node]
    #[arg(long, env = "CABRANK_NODEJS", value_name = "COMMAND", help_heading = "Application")]
    pub(crate) nodejs: Option<PathBuf>,
    /// How long a process may take to become ready [default: 90]
    #[arg(
        long,
        env = "CABRANK_START_TIMEOUT",
        value_name = "SECONDS",
        help_heading = "Application"
    )]
    pub(crate) start_timeout: Option<Seconds>,

    /// Where restart.txt is looked for, absolute or below DIR [default: tmp]
    #[arg(long, env = "CABRANK_RESTART_DIR", value_name = "DIR", help_heading = "Restarts")]
    pub(crate) restart_dir: Option<PathBuf>,
    /// Replace processes one by one, without a pause (the default in production and staging)
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
    /// How often the restart files are looked at, at most [default: 0.05]
    #[arg(
        long,
        env = "CABRANK_STAT_THROTTLE_RATE",
        value_name = "SECONDS",
        help_heading = "Restarts"
    )]
    pub(crate) stat_throttle_rate: Option<Seconds>,

    /// How large the head of a request may be [default: 65536]
    #[arg(long, env = "CABRANK_MAX_HEADER_SIZE", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_header_size: Option<HeadSize>,
    /// How large the body of a request may be; 0: no limit [default: 0]
    #[arg(long, env = "CABRANK_MAX_BODY", value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_body: Option<BodySize>,
    /// How long a client may take for the head of a request, and idle between two [default: 60]
    #[arg(long, env = "CABRANK_HEADER_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) header_timeout: Option<Seconds>,
    /// How long a client may pause within a body that it sends or is sent; 0: any time [default: 60]
    #[arg(long, env = "CABRANK_CLIENT_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) client_timeout: Option<Seconds>,
    /// How long a shutdown waits for requests [default: 60]
    #[arg(long, env = "CABRANK_SHUTDOWN_TIMEOUT", value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_timeout: Option<Seconds>,

    /// How much is logged [default: info]
    #[arg(long, env = "CABRANK_LOG_LEVEL", value_name = "LEVEL", help_heading = "Logs")]
    pub(crate) log_level: Option<LogLevel>,
    /// text or json [default: text]
    #[arg(long, env = "CABRANK_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logs")]
    pub(crate) log_format: Option<LogFormat>,
}

/// Which of the running agents is meant.
#[derive(Debug, Args)]
pub(crate) struct InstanceArgs {
    /// The pid of the agent, if several run
    #[arg(long, value_name = "PID")]
    pub(crate) instance: Option<Pid>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
    /// Print all facts as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DetachArgs {
    /// The process id, as `status` shows it
    pub(crate) pid: Pid,
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Cli::declaration().debug_assert();
    }

    #[test]
    fn every_option_is_also_a_variable_of_its_name() {
        let mut cli = Cli::declaration();
        let start = cli.find_subcommand_mut("start").unwrap();
        for arg in start.get_arguments() {
            let id = arg.get_id().as_str();
            if ["dir", "no_rolling_restarts", "help"].contains(&id) {
                continue;
            }
            let expected = format!("CABRANK_{}", id.to_uppercase());
            assert_eq!(arg.get_env().and_then(|e| e.to_str()), Some(&expected[..]));
        }
    }
}
