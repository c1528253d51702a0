//! The command line: the commands, and the options of `start` from their [table](crate::configuration::options).

use crate::configuration::options::TABLE;
use crate::configuration::peers;
use crate::configuration::table::variable;
use crate::configuration::values::{OptionValue, Pid, Seconds};
use crate::failure::EXIT_CODES;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{
    Arg, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    value_parser,
};
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
        let cli = matches.and_then(|m| Cli::from_arg_matches(&m));
        cli.unwrap_or_else(|e| {
            let command = std::env::args_os().nth(1).unwrap_or_default();
            with_answer(with_origin(e), &command.to_string_lossy()).exit()
        })
    }

    /// Parses a command line, for tests.
    #[cfg(test)]
    pub(crate) fn of<T: AsRef<std::ffi::OsStr>>(
        line: impl IntoIterator<Item = T>,
    ) -> Result<Cli, clap::Error> {
        let line = line.into_iter().map(|word| word.as_ref().to_owned());
        Cli::from_arg_matches(&Cli::declaration().try_get_matches_from(line)?)
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

/// Says in the error for another server's option, argument or command what does the same here.
fn with_answer(mut error: clap::Error, command: &str) -> clap::Error {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let answer = match error.kind() {
        ErrorKind::UnknownArgument => of(ContextKind::InvalidArg).and_then(|argument| {
            let option = argument.split(['=', ' ']).next().unwrap_or_default();
            match command {
                "stop" | "restart" | "status" => peers::answer_for_tool(option).map(str::to_owned),
                _ => {
                    let ours: Vec<_> = TABLE.iter().map(|row| row.name).collect();
                    peers::answer(option, &ours)
                }
            }
        }),
        ErrorKind::InvalidSubcommand => of(ContextKind::InvalidSubcommand)
            .and_then(|command| peers::answer_for_command(&command).map(str::to_owned)),
        _ => None,
    };
    if let Some(answer) = answer {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        let tips = ContextValue::StyledStrs(vec![answer.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Names the environment variable in the error if the bad value comes from there.
fn with_origin(mut error: clap::Error) -> clap::Error {
    let (Some(ContextValue::String(option)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let name = option.split(['=', '[', ' ']).next().unwrap_or_default().trim_start_matches('-');
    let variable = variable(&name.replace('-', "_"));
    if std::env::var_os(&variable).is_some_and(|v| v == **value) {
        let tip = format!("the value comes from the environment variable {variable}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the application in a directory until a signal or `cabrank stop`
    #[command(next_line_help = true, after_help = format!("{AFTER_START}\n\n{EXIT_CODES}"))]
    Start(StartArgs),
    /// Print the configuration of nginx or Apache in front of a server with these options
    #[command(next_line_help = true, after_help = EXIT_CODES)]
    Config(ConfigArgs),
    /// List the running servers; root sees those of all users
    List(ListArgs),
    /// Show the processes and queues of a running server
    Status(StatusArgs),
    /// Shut down a running server gracefully
    Stop(StopArgs),
    /// Replace the processes of a running server
    Restart(RestartArgs),
    /// Remove one application process from a running server's pool
    Detach(ProcessArgs),
    /// Give one application process no more requests, but keep it
    Disable(ProcessArgs),
    /// Give a disabled application process requests again
    Enable(ProcessArgs),
}

const AFTER_START: &str = "\
Every option is also an environment variable (CABRANK_MAX_POOL_SIZE=6 for --max-pool-size 6) and a key of \
DIR/cabrank.toml (max_pool_size = 6). The command line overrides the environment, and the environment \
overrides the file.

Without --environment, the variable of the application's type names the environment: RACK_ENV, else \
RAILS_ENV, for Rack, WSGI_ENV for Python, NODE_ENV for Node. If it is not set, the first of PASSENGER_APP_ENV, \
RAILS_ENV, RACK_ENV, WSGI_ENV and NODE_ENV does.

`start` boots the application before it accepts requests. If the boot fails, `start` prints the reason and \
exits with code 5. If a later boot fails, after a restart, clients get an error page.

SIGTERM, SIGINT (Ctrl-C), SIGQUIT and SIGHUP shut the server down gracefully: it finishes open requests first. \
A second signal, at least half a second later, ends it at once. The server ignores SIGHUP if it was started \
so, as under nohup.

If root starts cabrank, --user names the user that runs the application. Another user must be able to enter \
the directory of TMPDIR (/tmp by default), which then holds the sockets.";

/// The arguments of `start`.
#[derive(Debug)]
pub(crate) struct StartArgs {
    pub(crate) dir: PathBuf,
    /// The options on the command line and in the environment.
    pub(crate) options: ArgMatches,
}

impl Args for StartArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        let dir = Arg::new("dir").value_name("DIR").default_value(".");
        let dir = dir.value_parser(value_parser!(PathBuf)).help("The application's directory");
        command.arg(dir).args(TABLE.iter().flat_map(|row| row.arguments()))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        StartArgs::augment_args(command)
    }
}

impl FromArgMatches for StartArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<StartArgs, clap::Error> {
        let dir = matches.get_one::<PathBuf>("dir").cloned().unwrap_or_default();
        Ok(StartArgs { dir, options: matches.clone() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = StartArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The arguments of `config`: those of `start`, behind the web server.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The web server
    #[arg(value_name = "WEB_SERVER")]
    pub(crate) web_server: WebServer,
    /// The part to print, where several applications share a host: what stands inside the block `server` of nginx, or
    /// `<VirtualHost>` of Apache, or outside of it
    #[arg(long, value_name = "PART", default_value = "whole")]
    pub(crate) part: Part,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}

/// A part of the configuration of a web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Whole,
    Inside,
    Outside,
}

/// A web server in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WebServer {
    Nginx,
    Apache,
}

/// The choice among running servers.
#[derive(Debug, Args)]
pub(crate) struct InstanceArgs {
    /// The server: its pid, name, directory, port or socket; required if several are running. A server of another user
    /// has only its pid
    #[arg(long, value_name = "SERVER")]
    pub(crate) instance: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print the list as JSON
    #[arg(long)]
    pub(crate) json: bool,
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
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
    /// Return when the server has ended; exit with code 1 if it still runs after SECONDS
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, value_parser = Seconds::parser())]
    pub(crate) wait: Option<Option<Seconds>>,
}

#[derive(Debug, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    pub(crate) which: InstanceArgs,
    /// Wait until the new processes are up; exit with code 5 if they do not boot
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProcessArgs {
    /// The pid of the process, from `cabrank status`
    #[arg(value_parser = Pid::parser())]
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
    fn a_command_of_passenger_is_answered() {
        for (line, answer) in [
            (
                &["stop", "--port", "3000"][..],
                "tip: name the server with --instance: its pid, name, directory, port",
            ),
            (&["stop", "/srv/shop"], "tip: name the server with --instance"),
            (&["restart", "."], "tip: name the server with --instance"),
            (
                &["stop", "--pid-file=x"],
                "tip: use --instance with the name, directory or port, or `kill $(cat FILE)`",
            ),
            (
                &["restart", "--ignore-app-not-running"],
                "tip: not needed: without a running server, the exit code is 3",
            ),
            (&["memory-stats"], "tip: use `cabrank status`: the column Memory"),
            (&["restart-app", "x"], "tip: use `cabrank restart`"),
            (&["list-instances"], "tip: use `cabrank list`"),
            (&["start", "--pre-start", "x"], "tip: not needed: the server starts a process before"),
            (&["start", "--passenger-max-requests", "1"], "tip: use --max-requests"),
        ] {
            let error = Cli::of(["cabrank"].iter().chain(line)).unwrap_err();
            let text = with_answer(error, line[0]).to_string();
            assert!(text.contains(answer) && !text.contains("similar"), "{line:?}: {text}");
        }
    }

    #[test]
    fn the_unit_of_systemd_starts_and_stops_a_server() {
        let unit = include_str!("../../../examples/systemd/shop.service").replace("\\\n", "");
        let value = |key: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap().trim().to_owned()
        };
        let command = |key| {
            let line = value(key).replace("$MAINPID", "1");
            Cli::of(line.split_whitespace()).unwrap().command
        };
        let Command::Start(start) = command("ExecStart") else { panic!("another command") };
        let limit = start.options.get_one::<Seconds>("shutdown_timeout").unwrap().0.as_secs();
        assert!(limit < value("TimeoutStopSec").parse().unwrap());
        assert!(matches!(command("ExecReload"), Command::Restart(restart) if restart.wait));
        // Otherwise the processes of the application get the signal, too.
        assert_eq!(value("KillMode"), "mixed");
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
