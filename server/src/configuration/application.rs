//! An application to serve: where it is, what it is, and the options of its processes.

use crate::configuration::options::Options;
use crate::configuration::values::SpawnMethod;
use crate::configuration::{environment, owner};
use crate::failure::Failure;
use cabrank::PoolOptions;
use cabrank::application_pool::RestartMode;
use cabrank_spawner::app_type::{App, CustomType, Interpreter, Search};
use cabrank_spawner::{Check, Finder, User, variables_of_file};
use std::num::NonZeroUsize;
use std::path::{Component, Path, PathBuf};

/// An application to serve.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) app: App,
    /// Such as `production`.
    pub(crate) environment: String,
    /// The user of its processes; `None`: the server's.
    pub(crate) user: Option<User>,
    pub(crate) options: Options,
    /// The types that the user has defined.
    custom_types: Vec<CustomType>,
}

impl Application {
    /// Finds the application in `root`, whose file defines `custom_types`.
    ///
    /// # Errors
    /// The directory has no application, or options contradict each other.
    pub(crate) fn find(
        root: &Path,
        mut options: Options,
        custom_types: &[CustomType],
    ) -> Result<Application, Failure> {
        yield_to_line(&mut options);
        let app = search(&options, custom_types).find(root)?;
        check_minimum(&options)?;
        check_threads(&app, &options)?;
        let user = match options.user.as_deref() {
            Some(name) => User::find(name)?,
            None if *options.user_by_owner => owner::of(&app)?,
            None => None,
        };
        let variables = variables(&app, &options, user.as_ref())?;
        Ok(Application {
            environment: environment::of(&app, options.environment.as_deref(), &variables)?,
            user,
            app,
            options,
            custom_types: custom_types.to_vec(),
        })
    }

    /// Returns what finds the application in another release, by the same options.
    fn finder(&self) -> Finder {
        let (options, custom_types) = (self.options.clone(), self.custom_types.clone());
        let user = self.owner().cloned();
        Finder::new(move |root| {
            let mut app = search(&options, &custom_types).find(root)?;
            if let Some(other) = user.as_ref().and_then(|user| owner::differs(&app, user)) {
                app.remark = Some(other);
            }
            Ok(app)
        })
    }

    /// Returns the user of its processes, if that is the owner of the application.
    fn owner(&self) -> Option<&User> {
        let by_owner = *self.options.user_by_owner && self.options.user.is_none();
        self.user.as_ref().filter(|_| by_owner)
    }

    /// Returns what keeps code of other users from running as the owner.
    fn check(&self) -> Option<Check> {
        let (path, user) = (self.app.root.clone(), self.owner()?.clone());
        Some(Check::new(move |app| owner::check(&path, app, &user)))
    }

    /// Returns the number of threads that serve its requests, unless an option names it.
    pub(crate) fn threads(&self) -> usize {
        self.app.threads(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Returns the options of each `get` from the pool.
    pub(crate) fn pool_options(&self) -> PoolOptions {
        let options = &self.options;
        PoolOptions::new(&self.app.root)
            .with_app_group_name(self.group_name())
            .with_environment(&self.environment)
            .with_min_processes(options.min_instances.0)
            .with_max_requests(options.max_requests.limit())
            .with_max_queue(options.max_request_queue_size.limit())
            .with_max_queue_time(options.max_request_queue_time.limit())
            .with_restart_dir(&*options.restart_dir)
            .with_restart_mode(self.restart_mode())
    }

    /// Returns how a restart replaces the processes.
    pub(crate) fn restart_mode(&self) -> RestartMode {
        match self.options.rolling_restarts.unwrap_or(self.is_public()) {
            true => RestartMode::Rolling,
            false => RestartMode::Immediate,
        }
    }

    /// Returns the name of the application's group, in Passenger's form.
    pub(crate) fn group_name(&self) -> String {
        // The root has one spelling and is UTF-8 (`root`), so two paths have two names.
        format!("{} ({})", self.app.root.display(), self.environment)
    }

    /// Returns the options of the application's processes.
    pub(crate) fn spawner_options(&self) -> cabrank_spawner::Options {
        let options = &self.options;
        let interpreter: &Path = match self.app.interpreter() {
            Some(Interpreter::Ruby) => &options.ruby,
            Some(Interpreter::Python) => &options.python,
            Some(Interpreter::Node) => &options.nodejs,
            None => "".as_ref(),
        };
        cabrank_spawner::Options {
            interpreter: interpreter.into(),
            environment: self.environment.clone(),
            base_uri: self.base_uri().into(),
            group_name: self.group_name(),
            user: self.user.clone(),
            no_new_privileges: *options.no_new_privileges,
            env_file: (*options.env_file).clone(),
            loads_shell_environment: *options.load_shell_environment,
            spawn_method: match *options.spawn_method {
                SpawnMethod::Direct => cabrank_spawner::SpawnMethod::Direct,
                SpawnMethod::Smart => cabrank_spawner::SpawnMethod::Smart,
            },
            max_preloader_idle_time: options.max_preloader_idle_time.limit(),
            start_timeout: options.start_timeout.0,
            restart_dir: options.restart_dir.to_path_buf(),
            log_level: options.log_level.to_string(),
            app_threads: NonZeroUsize::new(options.app_threads.0).unwrap_or(NonZeroUsize::MIN),
            early_hints: *options.early_hints,
            concurrency: options.force_max_concurrent_requests_per_process.map(|n| n.0),
            max_request_time: options.max_request_time.limit(),
            max_websocket_message: options.max_websocket_message.0,
            finder: Some(self.finder()),
            check: self.check(),
            ..cabrank_spawner::Options::new(self.app.clone())
        }
    }

    /// Returns the path below which it is served, without a slash at its end.
    pub(crate) fn base_uri(&self) -> &str {
        self.options.base_uri.as_ref().map_or("", |path| &path.0)
    }

    /// Returns whether error pages show the application's own output.
    pub(crate) fn shows_details(&self) -> bool {
        !self.is_public()
    }

    fn is_public(&self) -> bool {
        matches!(&*self.environment, "production" | "staging")
    }
}

/// Returns the variables in the file of `--env-file`.
fn variables(
    app: &App,
    options: &Options,
    user: Option<&User>,
) -> Result<Vec<(String, String)>, Failure> {
    let Some(file) = options.env_file.as_ref() else { return Ok(Vec::new()) };
    let path = app.root.join(file);
    variables_of_file(&path, user).map_err(|e| {
        let user = user.map_or("this user".into(), |user| format!("the user {}", user.name));
        let path = path.display();
        Failure::usage(format!(
            "cannot read the variables in {path}: {e}. Correct the file, let {user} read it, or correct --env-file."
        ))
    })
}

/// Forgets what the file says if the command line or the environment contradicts it: a start command, a module, or the
/// type and the startup file.
fn yield_to_line(options: &mut Options) {
    // The file belongs to the owner, who would choose another user, such as root.
    if *options.user_by_owner && options.user_by_owner.is_on_line() {
        options.user.ignore_file();
    }
    let Options { app_type, startup_file, start_command, app, .. } = options;
    if start_command.is_on_line() && start_command.is_some() {
        app_type.ignore_file();
        startup_file.ignore_file();
        app.ignore_file();
    } else if app.is_on_line() && app.is_some() {
        startup_file.ignore_file();
        start_command.ignore_file();
    } else if (app_type.is_on_line() && app_type.as_deref().is_some_and(|name| name != "generic"))
        || startup_file.is_on_line()
    {
        start_command.ignore_file();
        let is_python = |name: &str| matches!(name, "python" | "wsgi" | "asgi");
        if startup_file.is_on_line() || !app_type.as_deref().is_some_and(is_python) {
            app.ignore_file();
        }
    }
}

/// Fails if the application's processes cannot have as many threads as the user asks for.
fn check_threads(app: &App, options: &Options) -> Result<(), Failure> {
    let threads = options.app_threads.0;
    if threads == 1 || app.has_threads {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} is not for an application of the type {}: only Rack and WSGI applications are served on threads. Remove it.",
        options.app_threads.as_given(threads),
        app.type_name,
    )))
}

/// Fails if the minimum of processes exceeds a maximum.
///
/// The pool never exceeds its maximum, so it would ignore such a minimum silently.
fn check_minimum(options: &Options) -> Result<(), Failure> {
    let min = &options.min_instances;
    let of_all = &options.max_pool_size;
    let of_app = &options.max_instances_per_app;
    let (max, given, option) = match of_app.limit().filter(|n| *n < of_all.0) {
        Some(max) => (max, of_app.as_given(max), of_app.option()),
        None => (of_all.0, of_all.as_given(of_all.0), of_all.option()),
    };
    if min.0 <= max {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{} asks for more processes than {given} allows. Lower --min-instances, or raise {option}.",
        min.as_given(min.0),
    )))
}

/// Returns the search for an application by these options.
fn search<'a>(options: &'a Options, custom_types: &'a [CustomType]) -> Search<'a> {
    Search {
        app_type: options.app_type.as_deref(),
        startup_file: options.startup_file.as_deref(),
        module: options.app.as_deref(),
        start_command: options.start_command.as_deref(),
        custom_types,
    }
}

/// Returns the path of an application's directory: absolute, without `.`, `..` and a final slash, and with its links.
///
/// A deployment lets a link lead elsewhere. So the path is resolved for each process, and not here.
///
/// # Errors
/// `dir` is not a directory that can be read, or its path cannot be told to a process.
pub(crate) fn root(dir: &Path) -> Result<PathBuf, Failure> {
    // As gunicorn and uvicorn take it.
    let is_module = !dir.exists() && dir.to_str().is_some_and(|dir| dir.contains(':'));
    let unusable = |problem: String| {
        let dir = dir.display();
        let remedy = match is_module {
            true => format!("For a Python module: `cabrank start . --app {dir}`"),
            false => "Name the directory of an application".into(),
        };
        Failure::not_found(format!("cannot serve {dir}: {problem}. {remedy}."))
    };
    let real = dir.canonicalize().map_err(|e| unusable(e.to_string()))?;
    // Behind a link `..` is another directory than in the text.
    let is_same = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == real);
    let root = Some(as_given(dir)).filter(is_same).unwrap_or_else(|| real.clone());
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
    if [&root, &real].iter().any(|path| path.to_str().is_none_or(|p| p.contains('\n'))) {
        return Err(unusable(
            "its path is not UTF-8 or has a line break, which the handshake does not allow".into(),
        ));
    }
    Ok(root)
}

/// Returns the path as an absolute one without `.`, `..` and a final slash, by its text alone.
fn as_given(dir: &Path) -> PathBuf {
    let mut path = PathBuf::new();
    for component in working_directory().join(dir).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = path.pop(),
            _ => path.push(component),
        }
    }
    path
}

/// Returns the working directory by the path on which the shell has entered it, where it says so.
fn working_directory() -> PathBuf {
    let by_shell = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    let real = std::env::current_dir().unwrap_or_default();
    let is_real = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == real);
    by_shell.filter(is_real).unwrap_or(real)
}
