//! An application that can be served, and how it is launched.

use super::node_command::StartScript;
use super::{AppType, Interpreter, Loader, StartCommand};
use crate::handshake::Protocol;
use std::path::PathBuf;

/// An application that can be served.
#[derive(Clone, Debug)]
pub struct App {
    /// The directory.
    pub root: PathBuf,
    /// The name of its type.
    pub type_name: String,
    /// The name of its type for people.
    pub description: String,
    /// The beginning of the process title.
    pub title: String,
    /// The variables that name the environment of such an application, in the order in which they count.
    pub environment_variables: &'static [&'static str],
    /// Whether one process can serve several requests at once on threads ([`Options::app_threads`]).
    ///
    /// [`Options::app_threads`]: crate::Options::app_threads
    pub has_threads: bool,
    /// How its processes are started.
    pub launch: Launch,
    /// A sentence for the operator: a sign in the directory says something else than `launch`.
    pub remark: Option<String>,
    /// Whether the script `start` of its package names the startup file.
    pub is_named_by_script: bool,
}

/// How the processes of an application are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A loader that is part of this program loads the startup file.
    Loader {
        /// The loader.
        loader: &'static Loader,
        /// The startup file, relative to the root or absolute.
        startup_file: String,
        /// The script of the application's package that starts this file, where it says more than that.
        script: Option<StartScript>,
    },
    /// A loader of the user's loads the startup file.
    Custom(CustomLoader),
    /// The application's own command starts a server.
    Command(StartCommand),
}

/// The loader of a [`CustomType`](super::CustomType), for one application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomLoader {
    /// The program that loads the application.
    pub loader: PathBuf,
    /// The program that loads it once, and forks its processes.
    pub preloader: Option<PathBuf>,
    /// The program that runs both; `None`: they are executable.
    pub interpreter: Option<PathBuf>,
    /// The startup file, relative to the root or absolute.
    pub startup_file: String,
    /// The protocol that the socket `main` must have.
    pub protocol: Option<Protocol>,
    /// Replaces the number of sessions that a process asks for; 0: any number.
    pub concurrency: Option<usize>,
}

impl App {
    pub(super) fn new(root: PathBuf, app_type: &AppType, launch: Launch) -> App {
        App {
            root,
            type_name: app_type.name.into(),
            description: app_type.description.into(),
            title: app_type.title.into(),
            environment_variables: app_type.environment_variables,
            has_threads: app_type.has_threads,
            launch,
            remark: None,
            is_named_by_script: false,
        }
    }

    /// Returns the script that starts the application, where it says more than the name of a file.
    pub fn script(&self) -> Option<&StartScript> {
        match &self.launch {
            Launch::Loader { script, .. } => script.as_ref(),
            Launch::Custom(_) | Launch::Command(_) => None,
        }
    }

    /// Returns the value of a variable that the script sets.
    pub fn variable(&self, name: &str) -> Option<&str> {
        let mut set = self.script()?.variables.iter().rev();
        set.find(|(set, _)| set == name).map(|(_, value)| &**value)
    }

    /// Returns the interpreter that runs the loader, if an option of the server names it.
    pub fn interpreter(&self) -> Option<Interpreter> {
        match &self.launch {
            Launch::Loader { loader, .. } => Some(loader.interpreter),
            Launch::Custom(_) | Launch::Command(_) => None,
        }
    }

    /// Returns the number of a server's threads that suits the application on so many cores.
    pub fn threads(&self, cores: usize) -> usize {
        self.interpreter().map_or(cores, |interpreter| interpreter.threads(cores))
    }

    /// Returns whether a preloader can fork its processes.
    pub fn has_preloader(&self) -> bool {
        match &self.launch {
            Launch::Loader { loader, .. } => loader.preloader.is_some(),
            Launch::Custom(custom) => custom.preloader.is_some(),
            Launch::Command(_) => false,
        }
    }

    /// Returns what starts the application, for people: the script, the startup file, or the command.
    pub fn start_line(&self) -> &str {
        self.script().map_or_else(|| self.start(), |script| &script.text)
    }

    /// Returns what starts the application: the startup file, or the command.
    pub fn start(&self) -> &str {
        match &self.launch {
            Launch::Loader { startup_file, .. } => startup_file,
            Launch::Custom(custom) => &custom.startup_file,
            Launch::Command(command) => command.text(),
        }
    }
}
