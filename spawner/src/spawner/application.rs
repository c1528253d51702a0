//! One application, and how a process of it starts.
//!
//! One Unix socketpair is the loader's standard input and output; standard error is a pipe.
//! `std::process::Command` starts the process, so no code of ours runs between fork and exec. The steps
//! that belong there run in [`prepare`], a process image before the loader's.
//!
//! A newline must come before the loader's first line, so that unfinished output of a start-up script
//! cannot hide it. The server writes this newline into the child's end of the socketpair before the child
//! exists. So the newline comes first for certain, without a shell or a helper.

use super::keys;
use super::shared::Shared;
use crate::app_type::{
    App, BASE_URI_VARIABLES, ENVIRONMENT_VARIABLES, Interpreter, Launch, Loader,
};
use crate::boot_error::BootError;
use crate::children::AppChild;
use crate::descriptors::refuse_descriptors;
use crate::instance_number::{InstanceNumber, InstanceNumbers};
use crate::options::Options;
use crate::output::{BootLog, Output};
use crate::preloader::Preloading;
use crate::prepare::{self, Setting};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe;

/// One application, whose processes are started.
pub(super) struct Application {
    pub(super) options: Options,
    /// The error of the last process, if it has not become ready.
    pub(super) last_failure: Arc<Mutex<Option<String>>>,
    pub(super) preloading: Option<Arc<Preloading>>,
    numbers: Arc<InstanceNumbers>,
    pub(super) shared: Arc<Shared>,
}

/// The programs of a type.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Loader,
    Preloader,
}

/// The names of streams, and our ends of their pipes.
pub(super) type Pipes = [(&'static str, Option<OwnedFd>); 2];

/// A process that is not ready yet.
pub(super) struct Starting {
    pub(super) child: AppChild,
    /// The channel to its loader, if it has one.
    pub(super) control: Option<Arc<UnixStream>>,
    pub(super) output: Arc<Output>,
    /// Disconnects when the pipes of its output have been read to their ends.
    pub(super) output_ended: Mutex<Receiver<()>>,
    /// Its number among the processes of the application, if it has one. It is kept until the process has ended.
    pub(super) number: Option<InstanceNumber>,
}

/// A process with a loader, and the channel to it.
pub(super) type Started = (Starting, Arc<UnixStream>);

impl Application {
    pub(super) fn new(options: Options, shared: Arc<Shared>) -> Self {
        let preloading = options
            .preloads()
            .then(|| Preloading::new(options.max_preloader_idle_time, shared.runtime.clone()));
        let (last_failure, numbers) = Default::default();
        Application { options, last_failure, preloading, numbers, shared }
    }

    /// Returns this application as it is in another release.
    pub(super) fn with_app(&self, app: App) -> Self {
        Application {
            options: Options { app, ..self.options.clone() },
            last_failure: Arc::clone(&self.last_failure),
            preloading: self.preloading.clone(),
            numbers: Arc::clone(&self.numbers),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns the place of its preloader, if it has one.
    pub(super) fn preloading(&self) -> Option<&Arc<Preloading>> {
        self.preloading.as_ref()
    }

    /// Starts the loader or the preloader.
    pub(super) fn start(&self, role: Role) -> Result<Started, BootError> {
        let program = self.program(role)?;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        refuse_descriptors(&ours).map_err(broken)?;
        (&theirs).write_all(b"\n").map_err(broken)?;
        let script = self.options.app.script();
        let mut command = match keys::interpreter(&self.options) {
            Some(interpreter) => {
                let mut command = self.command(interpreter);
                command.args(script.map_or(&[][..], |script| &script.options));
                if let Launch::Loader { .. } = self.options.app.launch {
                    // Otherwise the shims of rbenv look for the version of the interpreter beside the first argument that is a
                    // file, and in the temporary directory, where any user may put one.
                    command.arg("--");
                }
                command.arg(program);
                command.args(script.map_or(&[][..], |script| &script.arguments));
                command
            }
            None => self.command(&program),
        };
        command
            .stdin(OwnedFd::from(theirs.try_clone().map_err(broken)?))
            .stdout(OwnedFd::from(theirs));
        let is_node = self.options.app.interpreter() == Some(Interpreter::Node);
        let number = is_node.then(|| self.numbers.take());
        if let Some(number) = &number {
            command.env("NODE_APP_INSTANCE", number.get().to_string());
        }
        let control = Arc::new(ours);
        let starting =
            Starting { control: Some(Arc::clone(&control)), number, ..self.launch(command)? };
        Ok((starting, control))
    }

    /// Returns a command that executes `program` in the application's directory and environment.
    pub(super) fn command(&self, program: &Path) -> Command {
        let options = &self.options;
        let setting = Setting {
            user: options.user.as_ref(),
            directory: &options.app.root,
            open_files: self.shared.open_files,
            no_new_privileges: options.no_new_privileges,
            env_file: options.env_file.as_deref(),
            loads_shell_environment: options.loads_shell_environment,
            variables: options.app.script().map_or(&[], |script| &script.variables),
        };
        let mut command = prepare::command(program, setting);
        command.env("IN_PASSENGER", "1").env("PYTHONUNBUFFERED", "1").stderr(Stdio::piped());
        for name in ENVIRONMENT_VARIABLES {
            command.env(name, &options.environment);
        }
        if !options.base_uri.is_empty() {
            for name in BASE_URI_VARIABLES {
                command.env(name, &options.base_uri);
            }
        }
        command
    }

    /// Starts a process, and forwards what it writes to pipes.
    pub(super) fn launch(&self, command: Command) -> Result<Starting, BootError> {
        let (child, pipes) = self.shared.forker.spawn(command).map_err(broken)?;
        self.shared.children.await_session(&child);
        let pipes = [
            ("stdout", pipes.stdout.map(OwnedFd::from)),
            ("stderr", pipes.stderr.map(OwnedFd::from)),
        ];
        self.forward(child, pipes)
    }

    /// Forwards what a process writes to pipes.
    pub(super) fn forward(&self, child: AppChild, pipes: Pipes) -> Result<Starting, BootError> {
        let output = Arc::new(Output::new(child.id(), self.boot_log()));
        let (open, output_ended) = channel();
        let _in_runtime = self.shared.runtime.enter();
        for (stream, pipe) in pipes {
            let Some(pipe) = pipe else { continue };
            let pipe = match pipe::Receiver::from_owned_fd(pipe) {
                Ok(pipe) => pipe,
                Err(e) => {
                    let _ = self.shared.children.reap(child);
                    return Err(broken(e));
                }
            };
            let (output, open) = (Arc::clone(&output), open.clone());
            self.shared.runtime.spawn(async move {
                output.forward(stream, pipe, Vec::new()).await;
                drop(open);
            });
        }
        let output_ended = Mutex::new(output_ended);
        Ok(Starting { child, control: None, output, output_ended, number: None })
    }

    /// Returns the user of the application's processes.
    pub(super) fn uid(&self) -> u32 {
        let own = || rustix::process::geteuid().as_raw();
        self.options.user.as_ref().map_or_else(own, |user| user.uid)
    }

    /// Returns the file of the loader or the preloader, which exists.
    fn program(&self, role: Role) -> Result<PathBuf, BootError> {
        self.shared.instance.restore().map_err(broken)?;
        let program = match (&self.options.app.launch, role) {
            (Launch::Loader { loader, .. }, Role::Loader) => {
                Some(self.write_loader(loader)?.join(loader.entry()))
            }
            (Launch::Loader { loader, .. }, Role::Preloader) => match loader.preloader {
                Some(entry) => Some(self.write_loader(loader)?.join(entry)),
                None => None,
            },
            (Launch::Custom(custom), Role::Loader) => Some(custom.loader.clone()),
            (Launch::Custom(custom), Role::Preloader) => custom.preloader.clone(),
            (Launch::Command(_), _) => None,
        };
        program.ok_or_else(|| BootError::plain("the type of the application has no such program."))
    }

    /// Writes the loader into the instance directory, unless it is there. Returns the directory.
    fn write_loader(&self, loader: &Loader) -> Result<PathBuf, BootError> {
        let write = || {
            self.shared.instance.restore()?;
            for (name, source) in loader.files {
                self.shared.instance.install(name, source)?;
            }
            Ok(self.shared.instance.path())
        };
        write().map_err(|e: io::Error| {
            BootError::plain(format!(
                "cannot write the loader into {}: {e}. Check the free space there.",
                self.shared.instance.path().display()
            ))
        })
    }

    /// Returns the keys that the handshake sends.
    pub(super) fn keys(&self, password: &str) -> Vec<(&'static str, String)> {
        keys::keys(&self.options, &self.shared.instance, password)
    }

    pub(super) fn last_failure(&self) -> MutexGuard<'_, Option<String>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the next process logs its output at once.
    pub(super) fn boot_log(&self) -> BootLog {
        if self.last_failure().is_some() { BootLog::Held } else { BootLog::Live }
    }
}

pub(super) fn broken(e: io::Error) -> BootError {
    BootError::plain(format!("cannot start a process: {e}."))
}
