//! The binary `cabrank`: its commands, in an environment that chooses no option.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The variables that name an environment. The server reads them, and so do frameworks.
const ENVIRONMENTS: [&str; 5] =
    ["PASSENGER_APP_ENV", "RAILS_ENV", "RACK_ENV", "WSGI_ENV", "NODE_ENV"];

/// A build of the binary.
#[derive(Clone, Debug)]
pub struct Binary(PathBuf);

impl Binary {
    /// Returns the binary at this path, which Cargo has built.
    pub fn new(path: impl Into<PathBuf>) -> Binary {
        Binary(path.into())
    }

    /// Returns the same binary by its whole path. The error for a missing one says how it is built.
    pub fn find(&self) -> Result<Binary, String> {
        let missing = |e| format!("{}: {e}: cargo build -p cabrank-server", self.0.display());
        self.0.canonicalize().map(Binary).map_err(missing)
    }

    /// Returns a command of the binary, with an environment of its own.
    ///
    /// The server and its tools look for each other below `runtime`, and find no other server of this machine.
    pub fn command<I>(&self, runtime: &Path, words: I) -> Command
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = Command::new(&self.0);
        command.args(words).stdin(Stdio::null());
        set_environment(&mut command, runtime);
        command
    }

    /// Returns the command `cabrank start` on a free port.
    pub fn start_command<I>(&self, runtime: &Path, dir: &Path, options: I) -> Command
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        let mut command = self.command(runtime, ["start"]);
        command.arg(dir).args(["--port", "0"]).args(options);
        command
    }

    /// Runs a command to its end.
    pub fn run<I>(&self, runtime: &Path, words: I) -> Result<Output, String>
    where
        I: IntoIterator<Item: AsRef<OsStr>>,
    {
        self.command(runtime, words).output().map_err(|e| format!("{}: {e}", self.0.display()))
    }

    /// Returns whether `cabrank start` knows the option, which is written with or without a value.
    pub fn knows(&self, option: &str) -> bool {
        let name = option.split('=').next().unwrap_or(option);
        let help = Command::new(&self.0).args(["start", "--help"]).output();
        help.is_ok_and(|out| {
            String::from_utf8_lossy(&out.stdout).split([' ', '=', '[', '\n']).any(|w| w == name)
        })
    }
}

/// Lets a command have its files below `runtime`, and removes the variables that a server reads.
pub fn set_environment(command: &mut Command, runtime: &Path) {
    clean_environment(command);
    command.env("XDG_RUNTIME_DIR", runtime).env("TMPDIR", runtime);
    command.env("CABRANK_REGISTRY_DIR", runtime);
    // Python's cache of compiled files compares times by the second, and a test may write a file twice in one.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
}

/// Removes the variables that a server reads from the environment of a command.
pub fn clean_environment(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let read = name
            .to_str()
            .is_some_and(|name| name.starts_with("CABRANK_") || ENVIRONMENTS.contains(&name));
        if read {
            command.env_remove(name);
        }
    }
}

/// Returns `outer` with the words and the environment of `command`, which it executes.
pub fn through(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(dir) = command.get_current_dir() {
        outer.current_dir(dir);
    }
    outer
}
