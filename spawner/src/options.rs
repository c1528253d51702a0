//! The options of the processes of one application.

use crate::app_type::App;
use crate::error::Error;
use crate::user::User;
use cabrank::PoolOptions;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How the processes of an application start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpawnMethod {
    /// Each process loads the application.
    #[default]
    Direct,
    /// A preloader loads the application and forks them, if the language has one.
    ///
    /// The program becomes a child subreaper, and reaps every orphan among its descendants.
    Smart,
}

type Find = dyn Fn(&Path) -> Result<App, Error> + Send + Sync;

/// Finds the application in a release. See [`Options::finder`].
#[derive(Clone)]
pub struct Finder(Arc<Find>);

impl Finder {
    /// Finds applications by `find`, whose argument is the directory without links.
    ///
    /// It reads files with the rights of [`Options::user`], on a thread that may wait for a file system.
    pub fn new(find: impl Fn(&Path) -> Result<App, Error> + Send + Sync + 'static) -> Finder {
        Finder(Arc::new(find))
    }

    pub(crate) fn find(&self, root: &Path) -> Result<App, Error> {
        (self.0)(root)
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Finder")
    }
}

type Allows = dyn Fn(&App) -> Result<(), String> + Send + Sync;

/// Says whether an application may start. See [`Options::check`].
#[derive(Clone)]
pub struct Check(Arc<Allows>);

impl Check {
    /// Checks applications by `allows`, whose error is the problem and its remedy.
    ///
    /// It reads files with the rights of [`Options::user`], on a thread that may wait for a file system.
    pub fn new(allows: impl Fn(&App) -> Result<(), String> + Send + Sync + 'static) -> Check {
        Check(Arc::new(allows))
    }

    pub(crate) fn allows(&self, app: &App) -> Result<(), String> {
        (self.0)(app)
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Check")
    }
}

/// How the processes of one application are started.
///
/// ```no_run
/// use cabrank_spawner::{Options, SpawnMethod, app_type};
///
/// # fn main() -> Result<(), cabrank_spawner::Error> {
/// let mut options = Options::new(app_type::find("/srv/shop".as_ref(), None, None)?);
/// options.spawn_method = SpawnMethod::Smart;
/// options.start_timeout = std::time::Duration::from_secs(30);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// The application. Its directory may have links in its path, and is what the path names when a process starts.
    pub app: App,
    /// Finds the application again, for a restart and where the path names another directory by then; `None`: it stays as
    /// it is.
    pub finder: Option<Finder>,
    /// Says whether the application may start, before each process; its directory has no links then. `None`: it may.
    pub check: Option<Check>,
    /// The program that runs the loader, such as `python3`. Commands need none.
    pub interpreter: PathBuf,
    /// The application's environment, such as `production`.
    pub environment: String,
    /// The path below which the application is served, such as `/blog`; empty: it has a host of its own.
    pub base_uri: String,
    /// The name of the application's group, as [`PoolOptions::app_group_name`] has it. Loaders may show it.
    pub group_name: String,
    /// The user of the processes; `None`: the program's own.
    pub user: Option<User>,
    /// A file with variables for the processes, absolute or below the application's directory. A variable that this program has,
    /// or that it sets for an application, stays as it is.
    pub env_file: Option<PathBuf>,
    /// Whether the processes start by a login shell of the user, which sets variables such as `PATH`.
    pub loads_shell_environment: bool,
    /// Whether the processes, and all that they start, can never gain rights by executing a program.
    pub no_new_privileges: bool,
    /// How the processes start.
    pub spawn_method: SpawnMethod,
    /// The time after which an unused preloader leaves; `None`: never.
    pub max_preloader_idle_time: Option<Duration>,
    /// The time in which a process must become ready.
    pub start_timeout: Duration,
    /// The directory of the restart files, for the loader.
    pub restart_dir: PathBuf,
    /// How much loaders log: `error`, `warn`, `info`, `debug` or `trace`.
    pub log_level: String,
    /// The number of requests that one process serves at once, each on a thread of its own. Only an application with
    /// [`has_threads`](App::has_threads) takes more than one.
    pub app_threads: NonZeroUsize,
    /// Whether Rack applications get `rack.early_hints`.
    pub early_hints: bool,
    /// Replaces the number of sessions that a process asks for; 0: any number.
    pub concurrency: Option<usize>,
    /// The time after which a request is given up. A loader may watch it, too.
    pub max_request_time: Option<Duration>,
    /// The largest message that a WebSocket of an ASGI application takes, in bytes.
    pub max_websocket_message: u64,
}

impl Options {
    pub(crate) fn preloads(&self) -> bool {
        self.spawn_method == SpawnMethod::Smart && self.app.has_preloader()
    }

    /// Returns options with defaults: the group of the application's directory, the environment `production`, and 90 seconds for the start.
    pub fn new(app: App) -> Options {
        Options {
            interpreter: app.interpreter().map_or_else(PathBuf::new, |i| i.program().into()),
            environment: "production".into(),
            base_uri: String::new(),
            group_name: PoolOptions::new(&app.root).app_group_name().into(),
            user: None,
            env_file: None,
            loads_shell_environment: false,
            no_new_privileges: false,
            spawn_method: SpawnMethod::Direct,
            max_preloader_idle_time: Some(Duration::from_secs(300)),
            start_timeout: Duration::from_secs(90),
            restart_dir: app.root.join("tmp"),
            log_level: "info".into(),
            app_threads: NonZeroUsize::MIN,
            early_hints: false,
            concurrency: None,
            max_request_time: None,
            max_websocket_message: 16 << 20,
            finder: None,
            check: None,
            app,
        }
    }
}
