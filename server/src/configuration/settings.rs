//! The server's settings.
//!
//! The command line overrides the environment, the environment overrides the file, and the file
//! overrides Passenger's defaults.

use crate::configuration::cli::{Options, StartArgs};
use crate::configuration::custom_types::AppTypeOption;
use crate::configuration::limits::{ServerLimits, Timeouts};
use crate::configuration::source::{self, Origins};
use crate::configuration::values::{AppOutput, LogFormat, LogLevel, SpawnMethod};
use crate::configuration::{environment, file};
use crate::failure::Failure;
use crate::request::networks::Networks;
use cabrank::PoolOptions;
use cabrank::application_pool::RestartMode;
use cabrank_spawner::User;
use cabrank_spawner::app_type::{App, Interpreter, Search};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The settings of one server, complete and checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) app: App,
    /// The default is 127.0.0.1, unlike Passenger's (every address): a development server should not be
    /// open to the network unless the user asks for that.
    pub(crate) listen: SocketAddr,
    /// The proxies whose word on the client's address and scheme counts.
    pub(crate) trusted_proxies: Networks,
    pub(crate) environment: String,
    /// The number of threads that serve requests.
    pub(crate) threads: usize,
    pub(crate) max_pool_size: usize,
    pub(crate) min_instances: usize,
    /// `None`: no limit, as in the next three. The options themselves keep Passenger's convention, in which 0 is
    /// no limit.
    pub(crate) max_instances_per_app: Option<usize>,
    pub(crate) pool_idle_time: Option<Duration>,
    pub(crate) max_requests: Option<usize>,
    pub(crate) max_request_queue_size: Option<usize>,
    pub(crate) forced_concurrency: Option<usize>,
    /// The number of threads of each application process.
    pub(crate) app_threads: NonZeroUsize,
    pub(crate) early_hints: bool,
    /// The user of the application's processes; `None`: the server's.
    pub(crate) user: Option<User>,
    pub(crate) ruby: PathBuf,
    pub(crate) python: PathBuf,
    pub(crate) nodejs: PathBuf,
    pub(crate) start_timeout: Duration,
    pub(crate) spawn_method: SpawnMethod,
    pub(crate) max_preloader_idle_time: Option<Duration>,
    pub(crate) restart_dir: PathBuf,
    pub(crate) rolling_restarts: bool,
    pub(crate) stat_throttle_rate: Duration,
    pub(crate) max_request_queue_time: Option<Duration>,
    pub(crate) retry_requests: bool,
    /// `None`: as many as the limit of open files allows, as in the next one.
    pub(crate) max_connections: Option<usize>,
    pub(crate) max_requests_in_progress: Option<usize>,
    pub(crate) limits: ServerLimits,
    pub(crate) shutdown_timeout: Duration,
    pub(crate) app_output: AppOutput,
    pub(crate) log_level: LogLevel,
    pub(crate) log_format: LogFormat,
}

/// Translates a limit of the options, in which zero is no limit.
fn limit<T: Default + PartialEq>(n: T) -> Option<T> {
    (n != T::default()).then_some(n)
}

impl Settings {
    /// Merges the options of all sources and finds the application.
    pub(crate) fn load(args: StartArgs) -> Result<Settings, Failure> {
        let root = app_root(&args.dir)?;
        let mut from_line = args.options;
        if args.no_rolling_restarts {
            from_line.rolling_restarts = Some(false);
        }
        if args.no_retry_requests {
            from_line.retry_requests = Some(false);
        }
        let (mut from_file, custom_types) = file::read(&root)?;
        yield_to(&from_line, &mut from_file);
        let options = merge(from_line.clone(), from_file.clone());
        let app = Search {
            app_type: options.app_type.as_ref().and_then(AppTypeOption::name),
            startup_file: options.startup_file.as_deref(),
            start_command: options.start_command.as_deref(),
            custom_types: &custom_types,
        }
        .find(&root)?;
        let settings = Settings::resolve(app, options)?;
        let origins = Origins {
            given: &from_line,
            environment: &args.from_environment,
            in_file: &from_file,
            file: &root.join(file::NAME),
        };
        settings.check_minimum(&origins)?;
        settings.check_threads(&origins)?;
        Ok(settings)
    }

    /// Fails if the application's processes cannot have as many threads as the user asks for.
    fn check_threads(&self, origins: &Origins<'_>) -> Result<(), Failure> {
        let threads = self.app_threads.get();
        if threads == 1 || self.app.has_threads {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{} is not for an application of the type {}: only Rack and WSGI applications are served on threads. Remove it.",
            origins.of("app_threads", threads, |o| o.app_threads.is_some()),
            self.app.type_name,
        )))
    }

    /// Fails if the minimum of processes exceeds a maximum.
    ///
    /// The pool never exceeds its maximum, so it would ignore such a minimum silently.
    fn check_minimum(&self, origins: &Origins<'_>) -> Result<(), Failure> {
        type IsSet = fn(&Options) -> bool;
        let maxima: [(&str, Option<usize>, IsSet); 2] = [
            ("max_pool_size", Some(self.max_pool_size), |o| o.max_pool_size.is_some()),
            ("max_instances_per_app", self.max_instances_per_app, |o| {
                o.max_instances_per_app.is_some()
            }),
        ];
        let limits =
            maxima.into_iter().filter_map(|(name, max, is_set)| Some((name, max?, is_set)));
        let Some((name, max, is_set)) =
            limits.min_by_key(|(_, max, _)| *max).filter(|(_, max, _)| self.min_instances > *max)
        else {
            return Ok(());
        };
        Err(Failure::usage(format!(
            "{} asks for more processes than {} allows. Lower --min-instances, or raise {}.",
            origins.of("min_instances", self.min_instances, |o| o.min_instances.is_some()),
            origins.of(name, max, is_set),
            source::option(name),
        )))
    }

    fn resolve(app: App, o: Options) -> Result<Settings, Failure> {
        let environment = environment_of(&app, o.environment)?;
        let seconds = |given: Option<crate::configuration::values::Seconds>, default: f64| {
            given.map_or(Duration::from_secs_f64(default), |s| s.0)
        };
        let count = |given: Option<crate::configuration::values::Count>, default| {
            given.map_or(default, |c| c.0)
        };
        let threads = o.threads.map_or_else(|| app.threads(cores()), |n| n.0);
        Ok(Settings {
            app,
            listen: SocketAddr::new(
                o.address.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |a| a.0),
                o.port.map_or(3000, |p| p.0),
            ),
            trusted_proxies: o.trusted_proxies.unwrap_or_default(),
            threads,
            max_pool_size: o.max_pool_size.map_or(6, |n| n.0),
            min_instances: count(o.min_instances, 1),
            max_instances_per_app: limit(count(o.max_instances_per_app, 0)),
            pool_idle_time: limit(seconds(o.pool_idle_time, 300.0)),
            max_requests: limit(count(o.max_requests, 0)),
            max_request_queue_size: limit(count(o.max_request_queue_size, 100)),
            forced_concurrency: o.force_max_concurrent_requests_per_process.map(|c| c.0),
            app_threads: o
                .app_threads
                .and_then(|n| NonZeroUsize::new(n.0))
                .unwrap_or(NonZeroUsize::MIN),
            early_hints: o.early_hints.unwrap_or(false),
            user: o.user.as_deref().map(User::find).transpose()?.flatten(),
            ruby: o.ruby.unwrap_or_else(|| "ruby".into()),
            python: o.python.unwrap_or_else(|| "python3".into()),
            nodejs: o.nodejs.unwrap_or_else(|| "node".into()),
            spawn_method: o.spawn_method.unwrap_or_default(),
            max_preloader_idle_time: limit(seconds(o.max_preloader_idle_time, 300.0)),
            start_timeout: seconds(o.start_timeout, 90.0),
            restart_dir: o.restart_dir.unwrap_or_else(|| "tmp".into()),
            rolling_restarts: o
                .rolling_restarts
                .unwrap_or(matches!(&*environment, "production" | "staging")),
            stat_throttle_rate: seconds(o.stat_throttle_rate, 0.05),
            max_request_queue_time: limit(seconds(o.max_request_queue_time, 0.0)),
            retry_requests: o.retry_requests.unwrap_or(true),
            max_connections: o.max_connections.map(|n| n.0),
            max_requests_in_progress: o.max_requests_in_progress.map(|n| n.0),
            limits: ServerLimits {
                timeouts: Timeouts {
                    keep_alive: seconds(o.keep_alive_timeout, 60.0),
                    header: seconds(o.header_timeout, 60.0),
                    client: seconds(o.client_timeout, 60.0),
                    request: limit(seconds(o.max_request_time, 0.0)),
                },
                min_client_rate: o.min_client_rate.map_or(500, |n| n.0),
                max_header_size: o.max_header_size.map_or(65536, |s| s.0),
                max_body: o.max_body.map_or(0, |s| s.0),
                buffer_request: o.buffer_request.map_or(64 * 1024, |s| s.0),
                max_buffered_request: o.max_buffered_request.map_or(1 << 30, |s| s.0),
                max_buffered_answer: o.max_buffered_answer.map_or(1 << 30, |s| s.0),
            },
            shutdown_timeout: seconds(o.shutdown_timeout, 60.0),
            app_output: if o.app_output == Some(false) {
                AppOutput::Dropped
            } else {
                AppOutput::Logged
            },
            log_level: o.log_level.unwrap_or_default(),
            log_format: o.log_format.unwrap_or_default(),
            environment,
        })
    }

    /// Returns the options of each `get` from the pool.
    pub(crate) fn pool_options(&self) -> PoolOptions {
        let mode =
            if self.rolling_restarts { RestartMode::Rolling } else { RestartMode::Immediate };
        PoolOptions::new(&self.app.root)
            .with_app_group_name(self.group_name())
            .with_environment(&self.environment)
            .with_min_processes(self.min_instances)
            .with_max_requests(self.max_requests)
            .with_max_queue(self.max_request_queue_size)
            .with_max_queue_time(self.max_request_queue_time)
            .with_restart_dir(&self.restart_dir)
            .with_restart_mode(mode)
    }

    /// Returns the name of the application's group, in Passenger's form.
    pub(crate) fn group_name(&self) -> String {
        // The root is canonical and UTF-8 (`app_root`), so two directories have two names.
        format!("{} ({})", self.app.root.display(), self.environment)
    }

    /// Returns the options of the application's processes.
    pub(crate) fn spawner_options(&self) -> cabrank_spawner::Options {
        cabrank_spawner::Options {
            interpreter: match self.app.interpreter() {
                Some(Interpreter::Ruby) => self.ruby.clone(),
                Some(Interpreter::Python) => self.python.clone(),
                Some(Interpreter::Node) => self.nodejs.clone(),
                None => PathBuf::new(),
            },
            environment: self.environment.clone(),
            group_name: self.group_name(),
            user: self.user.clone(),
            spawn_method: match self.spawn_method {
                SpawnMethod::Direct => cabrank_spawner::SpawnMethod::Direct,
                SpawnMethod::Smart => cabrank_spawner::SpawnMethod::Smart,
            },
            max_preloader_idle_time: self.max_preloader_idle_time,
            start_timeout: self.start_timeout,
            restart_dir: self.restart_dir.clone(),
            log_level: format!("{:?}", self.log_level).to_lowercase(),
            app_threads: self.app_threads,
            early_hints: self.early_hints,
            concurrency: self.forced_concurrency,
            max_request_time: self.limits.timeouts.request,
            ..cabrank_spawner::Options::new(self.app.clone())
        }
    }

    /// Returns whether error pages show the application's own output.
    pub(crate) fn shows_details(&self) -> bool {
        !matches!(&*self.environment, "production" | "staging")
    }
}

/// Returns the number of cores that this process may use.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the name of the environment: the given one, else that of a variable, else development.
fn environment_of(app: &App, given: Option<String>) -> Result<String, Failure> {
    let (source, name) =
        match given {
            Some(name) => (None, name),
            None => environment::from_variables(app.environment_variables, |name| {
                std::env::var_os(name)
            })
            .map_err(|variable| Failure::usage(format!("the value of {variable} is not UTF-8.")))?
            .map_or((None, "development".into()), |(variable, name)| (Some(variable), name)),
        };
    if name.is_empty() || name.contains(['\n', '\0']) {
        let source = source.map(|variable| format!(" in {variable}")).unwrap_or_default();
        return Err(Failure::usage(format!(
            "the name of the environment{source} is empty or has a line break. Set it to a name such as \
             development or production (--environment, CABRANK_ENVIRONMENT, or environment in \
             cabrank.toml).",
        )));
    }
    Ok(name)
}

fn app_root(dir: &Path) -> Result<PathBuf, Failure> {
    let unusable = |problem: String| {
        Failure::not_found(format!(
            "cannot serve {}: {problem}. Name the directory of an application.",
            dir.display()
        ))
    };
    let root = dir.canonicalize().map_err(|e| unusable(e.to_string()))?;
    if !root.is_dir() {
        return Err(unusable("it is not a directory".into()));
    }
    // Without this check, an unreadable directory would look like one without an application.
    std::fs::read_dir(&root).map_err(|e| {
        Failure::not_found(format!(
            "cannot read the directory {}: {e}. Give this user the right to read it.",
            root.display()
        ))
    })?;
    if root.to_str().is_none_or(|p| p.contains('\n')) {
        return Err(unusable(
            "its path is not UTF-8 or has a line break, which the handshake does not allow".into(),
        ));
    }
    Ok(root)
}

/// Removes from `file` what contradicts the options of `line`: a start command, or the type and the startup file.
fn yield_to(line: &Options, file: &mut Options) {
    let app_type = line.app_type.as_ref().and_then(AppTypeOption::name);
    if line.start_command.is_some() {
        (file.app_type, file.startup_file) = (None, None);
    } else if app_type.is_some_and(|name| name != "generic") || line.startup_file.is_some() {
        file.start_command = None;
    }
}

/// Takes each option from `first` if it is set there, else from `second`.
fn merge(first: Options, second: Options) -> Options {
    macro_rules! each {
        ($($field:ident)*) => { Options { $($field: first.$field.or(second.$field),)* } };
    }
    each!(
        address port trusted_proxies threads environment max_pool_size min_instances max_instances_per_app pool_idle_time
        max_requests max_request_queue_size force_max_concurrent_requests_per_process app_type
        startup_file start_command app_threads early_hints user ruby python nodejs start_timeout spawn_method max_preloader_idle_time restart_dir rolling_restarts stat_throttle_rate
        max_header_size max_body buffer_request max_buffered_request max_buffered_answer max_request_time
        max_request_queue_time retry_requests max_connections max_requests_in_progress keep_alive_timeout
        min_client_rate header_timeout client_timeout shutdown_timeout app_output log_level log_format
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::cli::{Cli, Command};
    use clap::Parser;

    fn load(dir: &Path, line: &[&str]) -> Result<Settings, Failure> {
        let mut words = vec!["cabrank", "start", dir.to_str().unwrap()];
        words.extend(line);
        let Command::Start(args) = Cli::try_parse_from(words).unwrap().command else {
            unreachable!()
        };
        Settings::load(*args)
    }

    fn app(toml: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("app.js"), "").unwrap();
        std::fs::write(dir.path().join(file::NAME), toml).unwrap();
        dir
    }

    #[test]
    fn the_defaults_are_passengers() {
        let s = load(app("").path(), &[]).unwrap();
        assert_eq!((s.max_pool_size, s.min_instances, s.max_instances_per_app), (6, 1, None));
        assert_eq!(s.pool_idle_time, Some(Duration::from_secs(300)));
        assert_eq!((s.max_request_queue_size, s.max_requests), (Some(100), None));
        assert_eq!(s.listen.to_string(), "127.0.0.1:3000");
        assert_eq!(s.environment, "development");
        assert!(!s.rolling_restarts && s.shows_details());
    }

    #[test]
    fn ruby_and_python_processes_share_the_cores_with_the_threads() {
        assert_eq!([1, 2, 3, 8].map(|cores| Interpreter::Python.threads(cores)), [1, 1, 2, 4]);
        assert_eq!([1, 2, 8].map(|cores| Interpreter::Ruby.threads(cores)), [1, 1, 4]);
        assert_eq!([1, 2, 8].map(|cores| Interpreter::Node.threads(cores)), [1, 2, 8]);
        let given = load(app("").path(), &["--threads", "7"]).unwrap();
        assert_eq!(given.threads, 7);
    }

    #[test]
    fn the_command_line_overrides_the_file() {
        let dir = app("max_pool_size = 2\nenvironment = \"production\"\nport = 81\n");
        let s = load(dir.path(), &["--max-pool-size", "4"]).unwrap();
        assert_eq!((s.max_pool_size, s.listen.port()), (4, 81));
        assert!(s.rolling_restarts && !s.shows_details());
        let s = load(dir.path(), &["--no-rolling-restarts"]).unwrap();
        assert!(!s.rolling_restarts);
        let s = load(dir.path(), &["-e", "test", "--rolling-restarts"]).unwrap();
        assert!(s.rolling_restarts);
    }

    #[test]
    fn a_start_command_and_a_type_on_the_command_line_override_each_other_in_the_file() {
        let start = |toml: &str, line: &[&str]| {
            load(app(toml).path(), line).unwrap().app.start().to_owned()
        };
        assert_eq!(start("start_command = \"./serve\"\n", &[]), "./serve");
        assert_eq!(start("start_command = \"./serve\"\n", &["--app-type", "node"]), "app.js");
        assert_eq!(start("start_command = \"./serve\"\n", &["--startup-file", "app.js"]), "app.js");
        assert_eq!(start("start_command = \"./serve\"\n", &["--app-type", "generic"]), "./serve");
        assert_eq!(start("app_type = \"node\"\n", &["--start-command", "./serve"]), "./serve");
        assert_eq!(start("startup_file = \"x.js\"\n", &["--start-command", "./serve"]), "./serve");
    }

    #[test]
    fn an_error_in_the_file_names_the_file() {
        let dir = app("port = 99999\n");
        let failure = load(dir.path(), &[]).unwrap_err();
        assert!(failure.message.contains("cabrank.toml:1: bad value for port"), "{failure}");
        assert_eq!(failure.kind as u8, 2);
    }

    #[test]
    fn the_server_looks_at_a_short_time_out_more_often() {
        let options =
            ["--keep-alive-timeout", "--header-timeout", "--client-timeout", "--max-request-time"];
        for option in options {
            let settings = load(app("").path(), &[option, "0.1"]).unwrap();
            assert_eq!(
                settings.limits.timeouts.sweep_pause(),
                Duration::from_millis(25),
                "{option}"
            );
        }
        let settings = load(app("").path(), &["--client-timeout", "0"]).unwrap();
        assert_eq!(settings.limits.timeouts.sweep_pause(), Duration::from_secs(1));
    }

    /// `display` would show both as the same text, and the group's name is made of it.
    #[test]
    fn directories_that_are_not_unicode_are_refused_and_a_trailing_slash_is_no_other_group() {
        use std::os::unix::ffi::OsStrExt;
        let dir = app("");
        let slash = PathBuf::from(format!("{}/", dir.path().display()));
        let [one, other] = [dir.path(), &slash].map(|dir| load(dir, &[]).unwrap().group_name());
        assert_eq!(one, other);
        for name in [b"caf\xe9", b"caf\xe8"] {
            let root = dir.path().join(std::ffi::OsStr::from_bytes(name));
            std::fs::create_dir(&root).unwrap();
            assert!(app_root(&root).unwrap_err().message.contains("not UTF-8"));
        }
    }

    #[test]
    fn the_error_for_a_missing_directory_names_it() {
        let failure = load(Path::new("/no/such/place"), &[]).unwrap_err();
        assert!(failure.message.contains("/no/such/place"), "{failure}");
        assert_eq!(failure.kind as u8, 3);
    }
}
