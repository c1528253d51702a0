//! The server's configuration: one immutable value.
//!
//! [`options`] has the table of options, and [`values`] their types. [`cli`] makes the command line from the table, and
//! [`file`](mod@file) reads `cabrank.toml`, with its [`custom_types`]. [`table`] takes each option from the first source that
//! has it: command line, environment, file, default. [`application`] finds the application and its environment.

pub(crate) mod application;
pub(crate) mod cli;
pub(crate) mod custom_types;
pub(crate) mod environment;
pub(crate) mod file;
pub(crate) mod limits;
pub(crate) mod listeners;
pub(crate) mod options;
mod owner;
#[cfg(test)]
mod page_tests;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod section;
pub(crate) mod syntax;
pub(crate) mod table;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use crate::failure::Failure;
use crate::request::networks::Networks;
use application::Application;
use cli::StartArgs;
use file::FileOptions;
pub(crate) use limits::ServerLimits;
pub(crate) use listeners::Listener;
use options::Options;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use values::{LogFormat, LogLevel};

/// The configuration of one server, complete and checked.
#[derive(Debug)]
pub(crate) struct Configuration {
    pub(crate) listeners: Vec<Listener>,
    /// One for each application; today, exactly one.
    pub(crate) applications: Vec<Arc<Application>>,
    pub(crate) server: Server,
    pub(crate) log: Log,
    pub(crate) file: file::Source,
}

/// The part that all applications and listeners share.
#[derive(Debug)]
pub(crate) struct Server {
    /// The name by which the tools find it.
    pub(crate) name: String,
    pub(crate) limits: ServerLimits,
    /// The absolute path of the pid file.
    pub(crate) pid_file: Option<PathBuf>,
    /// The proxies whose word on the client's address and scheme counts. `None`: as the listeners decide.
    pub(crate) trusted_proxies: Option<Networks>,
    /// The number of threads that serve requests.
    pub(crate) threads: usize,
    /// `None`: as many as the limit of open files allows.
    pub(crate) max_connections: Option<usize>,
    pub(crate) shutdown_timeout: Duration,
    /// The time that a process has to leave at a restart.
    pub(crate) drain_timeout: Duration,
    pub(crate) pool: PoolLimits,
}

/// The limits of the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLimits {
    pub(crate) max_processes: usize,
    /// `None`: no limit, as in the next one.
    pub(crate) max_per_application: Option<usize>,
    pub(crate) max_idle_time: Option<Duration>,
    /// The shortest time between two looks at the restart files.
    pub(crate) stat_throttle: Duration,
}

/// The server's log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// Its absolute path. `None`: standard error.
    pub(crate) file: Option<PathBuf>,
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
    /// Whether the lines that applications print are logged.
    pub(crate) app_output: bool,
}

/// Returns the name that a server for this directory has without `--name`: that of the directory. A link `current` to the latest
/// release says nothing about the application, and the directory around it has its name.
fn name_of(root: &Path) -> String {
    let is_link = || root.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let name = root.file_name().unwrap_or(root.as_os_str());
    let around = root.parent().and_then(Path::file_name).filter(|_| name == "current" && is_link());
    around.unwrap_or(name).to_string_lossy().into()
}

impl Configuration {
    /// Takes the options from all sources and finds the application.
    ///
    /// # Errors
    /// A value is bad, values contradict each other, or there is no application.
    pub(crate) fn load(args: &StartArgs) -> Result<Configuration, Failure> {
        let root = application::root(&args.dir)?;
        let known: Vec<&str> = options::TABLE.iter().map(|row| row.name).collect();
        let file = file::Source::read(&root)?;
        let in_file = |error: String| Failure::usage(format!("{}:{error}", file.path.display()));
        let mut from_file = FileOptions::parse(&file.path, file.text(), &known).map_err(in_file)?;
        let custom_types = from_file.take_custom_types(&root, &known).map_err(in_file)?;
        let options = Options::take(&args.options, &mut from_file)?;
        let application = Application::find(&root, options.clone(), &custom_types)?;
        Ok(Configuration {
            listeners: listeners::of(&options, &root)?,
            server: Server {
                name: match &*options.name {
                    Some(name) => name.0.clone(),
                    None => name_of(&root),
                },
                pid_file: options.pid_file.as_ref().map(|path| root.join(path)),
                limits: ServerLimits::of(&options),
                trusted_proxies: options.trusted_proxies.as_ref().cloned(),
                threads: options.threads.map_or_else(|| application.threads(), |n| n.0),
                max_connections: options.max_connections.map(|n| n.0),
                shutdown_timeout: options.shutdown_timeout.0,
                drain_timeout: options.drain_timeout().0,
                pool: PoolLimits {
                    max_processes: options.max_pool_size.0,
                    max_per_application: options.max_instances_per_app.limit(),
                    max_idle_time: options.pool_idle_time.limit(),
                    stat_throttle: options.stat_throttle_rate.0,
                },
            },
            log: Log {
                file: options.log_file.as_ref().map(|path| root.join(path)),
                level: *options.log_level,
                format: *options.log_format,
                app_output: *options.app_output,
            },
            applications: vec![Arc::new(application)],
            file,
        })
    }
}
