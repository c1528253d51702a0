//! Starts application processes: the pool's [`Spawner`].
//!
//! One Unix socketpair is the loader's standard input and output; standard error is a pipe.
//! `std::process::Command` starts the process, so no code of ours runs between fork and exec. The steps
//! that belong there run in [`prepare`], a process image before the loader's.
//!
//! A newline must come before the loader's first line, so that unfinished output of a start-up script
//! cannot hide it. The server writes this newline into the child's end of the socketpair before the child
//! exists. So the newline comes first for certain, without a shell or a helper.

use crate::app_type::{CustomLoader, ENVIRONMENT_VARIABLES, Launch, Loader};
use crate::boot_error::BootError;
use crate::children::{AppChild, Children, kill_group};
use crate::connections::{Connections, IdleEnd};
use crate::forker::Forker;
use crate::handshake::{self, Address, Ready, Refusal, Socket};
use crate::held_socket::HeldSocket;
use crate::instance_dir::Instance;
use crate::lifeline;
use crate::options::Options;
use crate::output::{BootLog, Output};
use crate::preloader::Preloading;
use crate::prepare;
use crate::process::{AppInfo, AppProcess};
use crate::random;
use crate::{Link, WeakPool};
use cabrank::PoolOptions;
use cabrank::application_pool::{SpawnError, SpawnRequest, Spawner};
use rustix::process::{Resource, Signal, getrlimit};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

mod command;
mod explain;
mod keys;
mod smart;

/// The longest wait for the rest of the output of a process that failed to boot.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Spawns the processes of one application. [`Supervisor::spawner`](crate::Supervisor::spawner) creates it.
pub struct AppSpawner {
    options: Options,
    instance: Instance,
    children: Arc<Children>,
    forker: Forker,
    /// The error of the last process, if it has not become ready.
    last_failure: Mutex<Option<String>>,
    connections: Connections,
    preloading: Option<Arc<Preloading>>,
    pool: Arc<OnceLock<WeakPool>>,
    runtime: Handle,
    /// The soft limit of open files that the server was started with, if there is one.
    open_files: Option<u64>,
}

impl AppSpawner {
    /// Returns the link to the pool that starts processes by this spawner.
    pub fn link(&self) -> Link {
        Link { pool: Arc::clone(&self.pool), preloading: self.preloading.clone() }
    }

    /// Creates the spawner. Its processes have the limit of open files that the program has now.
    pub(crate) fn new(
        options: Options,
        instance: Instance,
        children: Arc<Children>,
        connections: Connections,
        runtime: Handle,
    ) -> io::Result<Self> {
        let preloading = options
            .preloads()
            .then(|| Preloading::new(options.max_preloader_idle_time, runtime.clone()));
        Ok(AppSpawner {
            preloading,
            options,
            instance,
            forker: Forker::start(Arc::clone(&children))?,
            last_failure: Mutex::default(),
            children,
            connections,
            pool: Arc::default(),
            runtime,
            open_files: getrlimit(Resource::Nofile).current,
        })
    }

    /// Starts the loader or the preloader.
    fn start(&self, role: Role) -> Result<Started, BootError> {
        let program = self.program(role)?;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        (&theirs).write_all(b"\n").map_err(broken)?;
        let mut command = match keys::interpreter(&self.options) {
            Some(interpreter) => {
                let mut command = self.command(interpreter);
                command.arg(program);
                command
            }
            None => self.command(&program),
        };
        command
            .stdin(OwnedFd::from(theirs.try_clone().map_err(broken)?))
            .stdout(OwnedFd::from(theirs));
        let control = Arc::new(ours);
        let starting = Starting { control: Some(Arc::clone(&control)), ..self.launch(command)? };
        Ok((starting, control))
    }

    /// Returns a command that executes `program` in the application's directory and environment.
    fn command(&self, program: &Path) -> Command {
        let options = &self.options;
        let mut command = prepare::command(program, options.user.as_ref(), self.open_files);
        command
            .current_dir(&options.app.root)
            .env("IN_PASSENGER", "1")
            .env("PYTHONUNBUFFERED", "1")
            .stderr(Stdio::piped());
        for name in ENVIRONMENT_VARIABLES {
            command.env(name, &options.environment);
        }
        command
    }

    /// Starts a process, and forwards what it writes to pipes.
    fn launch(&self, command: Command) -> Result<Starting, BootError> {
        let mut child = self.forker.spawn(command).map_err(|e| self.cannot_fork(e))?;
        let pipes = [
            ("stdout", child.stdout.take().map(OwnedFd::from)),
            ("stderr", child.stderr.take().map(OwnedFd::from)),
        ];
        self.forward(AppChild::Started(child), pipes)
    }

    /// Forwards what a process writes to pipes.
    fn forward(&self, mut child: AppChild, pipes: Pipes) -> Result<Starting, BootError> {
        let output = Arc::new(Output::new(child.id(), self.boot_log()));
        let (open, output_ended) = channel();
        let _in_runtime = self.runtime.enter();
        for (stream, pipe) in pipes {
            let Some(pipe) = pipe else { continue };
            let pipe = pipe::Receiver::from_owned_fd(pipe).map_err(|e| {
                kill_group(child.id(), Signal::KILL);
                let _ = self.children.reap(&mut child);
                broken(e)
            })?;
            let (output, open) = (Arc::clone(&output), open.clone());
            self.runtime.spawn(async move {
                output.forward(stream, pipe, Vec::new()).await;
                drop(open);
            });
        }
        Ok(Starting { child, control: None, output, output_ended: Mutex::new(output_ended) })
    }

    /// Returns the user of the application's processes.
    fn uid(&self) -> u32 {
        let own = || rustix::process::geteuid().as_raw();
        self.options.user.as_ref().map_or_else(own, |user| user.uid)
    }

    /// Returns the file of the loader or the preloader, which exists.
    fn program(&self, role: Role) -> Result<PathBuf, BootError> {
        self.instance.restore().map_err(broken)?;
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
            self.instance.restore()?;
            for (name, source) in loader.files {
                self.instance.install(name, source)?;
            }
            Ok(self.instance.path())
        };
        write().map_err(|e: io::Error| {
            BootError::plain(format!(
                "cannot write the loader into {}: {e}. Check the free space there.",
                self.instance.path().display()
            ))
        })
    }

    fn cannot_fork(&self, e: io::Error) -> BootError {
        let root = &self.options.app.root;
        if e.kind() == io::ErrorKind::NotFound && !root.is_dir() {
            return BootError::plain(format!(
                "the application's directory {} no longer exists. Restore it, or stop this server.",
                root.display()
            ));
        }
        broken(e)
    }

    /// Returns the error of a process that could not execute the interpreter.
    fn cannot_start(&self, why: &str) -> BootError {
        let remedy = match self.options.app.interpreter() {
            Some(interpreter) => {
                format!(" Install the interpreter, or name another with {}.", interpreter.option())
            }
            None => format!(
                " Correct the program in the definition of the type {}.",
                self.options.app.type_name
            ),
        };
        let mut error = BootError::plain(format!("{why}.{remedy}"));
        self.explain(&mut error);
        error
    }

    /// Returns the keys that the handshake sends.
    fn keys(&self, password: &str) -> Vec<(&'static str, String)> {
        keys::keys(&self.options, &self.instance, password)
    }

    fn boot(&self, request: &SpawnRequest) -> Result<AppProcess, BootError> {
        match &self.options.app.launch {
            Launch::Loader { .. } => self.boot_loader(request, None),
            Launch::Custom(custom) => self.boot_loader(request, Some(custom)),
            Launch::Command(command) => self.boot_command(command, request),
        }
    }

    /// Boots a process whose loader loads the startup file.
    fn boot_loader(
        &self,
        request: &SpawnRequest,
        custom: Option<&CustomLoader>,
    ) -> Result<AppProcess, BootError> {
        if let Some(forked) = self.fork(request) {
            return self.load(forked, request, custom);
        }
        let booted = self.start(Role::Loader).and_then(|begun| self.load(begun, request, custom));
        if let Some(preloading) = &self.preloading
            && !request.cancel().is_cancelled()
        {
            preloading.started_directly(booted.is_ok());
        }
        booted
    }

    /// Performs the handshake with a loader that has begun.
    fn load(
        &self,
        (starting, control): Started,
        request: &SpawnRequest,
        custom: Option<&CustomLoader>,
    ) -> Result<AppProcess, BootError> {
        let password = random::characters(43);
        let deadline = Instant::now() + self.options.start_timeout;
        shut_down_on_cancel(request, &control);
        let keys = self.keys(&password);
        let answer = handshake::perform(&control, &keys, deadline, |line| {
            starting.output.line("stdout", line);
        });
        // The process's input ends with the last reference, which `starting` has.
        drop(control);
        let checked = answer.and_then(|(ready, rest)| Ok((self.main_socket(ready, custom)?, rest)));
        match checked {
            Ok((serving, rest)) => {
                self.ready(starting, Serving { password, rest, ..serving }, request)
            }
            Err(refusal) => {
                let cancelled = request.cancel().is_cancelled();
                Err(self.boot_failed(starting, refusal, cancelled))
            }
        }
    }

    /// Returns the socket for requests. A Unix socket is held, and reachable at its new address.
    fn main_socket(&self, ready: Ready, custom: Option<&CustomLoader>) -> Result<Serving, Refusal> {
        let idle_end = match custom {
            Some(custom) => {
                must_speak(custom, &ready)?;
                IdleEnd::Process
            }
            None => IdleEnd::Server,
        };
        let Some(mut socket) = ready.preferred().cloned() else {
            return Err(Refusal::Protocol("the loader did not name a socket `main`".into()));
        };
        let uid = self.uid();
        let Address::Unix(path) = &mut socket.address else {
            return Ok(Serving::at(socket, None, idle_end));
        };
        let held = HeldSocket::open(path, uid).map_err(Refusal::Protocol)?;
        // The server never connects to the other sockets. A killed process would leave their files behind.
        for other in &ready.sockets {
            if let Address::Unix(other) = &other.address
                && *other != *path
                && let Ok(unused) = HeldSocket::open(other, uid)
            {
                unused.remove();
            }
        }
        *path = held.address();
        Ok(Serving::at(socket, Some(held), idle_end))
    }

    /// Turns a ready process into the pool's handle, and starts its lifeline.
    fn ready(
        &self,
        starting: Starting,
        serving: Serving,
        request: &SpawnRequest,
    ) -> Result<AppProcess, BootError> {
        let _in_runtime = self.runtime.enter();
        let control = starting.control.as_deref().map(nonblocking).transpose();
        let prepared = control.and_then(|c| Ok((c, lifeline::Exit::of(&starting.child)?)));
        let (control, exit) = match prepared {
            Ok(both) => both,
            Err(e) => return Err(self.boot_failed(starting, Refusal::Io(e.to_string()), false)),
        };
        let (stdout, control) = control.map(tokio::net::UnixStream::into_split).unzip();
        let Starting { child, output, control: original, .. } = starting;
        drop(original);
        let Serving { socket, held, idle_end, rest, password } = serving;
        output.ready();
        self.last_failure().take();
        let defined = match &self.options.app.launch {
            Launch::Custom(custom) => custom.concurrency,
            _ => None,
        };
        let endpoint = self.connections.endpoint(request.identifier(), socket.address, idle_end);
        let concurrency = self.options.concurrency.or(defined).unwrap_or(socket.concurrency);
        let connections = self.connections.clone();
        let info = Arc::new(AppInfo {
            held,
            control,
            ..AppInfo::new(
                child.id(),
                endpoint,
                socket.protocol,
                concurrency,
                password,
                connections,
            )
        });
        if let Some(stdout) = stdout {
            self.runtime.spawn(async move { output.forward("stdout", stdout, rest).await });
        }
        self.runtime.spawn(lifeline::hold(
            child,
            exit,
            Arc::clone(&info),
            Arc::clone(&self.pool),
            Arc::clone(&self.children),
        ));
        Ok(AppProcess(info))
    }

    /// Collects the rest of the output of a process that failed to boot, ends it, and returns the error.
    fn boot_failed(&self, starting: Starting, refusal: Refusal, cancelled: bool) -> BootError {
        let Starting { mut child, control, output, output_ended } = starting;
        let died_by_itself = matches!(refusal, Refusal::HungUp | Refusal::Error { .. });
        // Children of a shell that has ended may hold its output open.
        if cancelled || !died_by_itself || control.is_none() {
            kill_group(child.id(), Signal::KILL);
        }
        if !cancelled {
            let ended = output_ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _: Result<(), _> = ended.recv_timeout(OUTPUT_TIMEOUT);
        }
        drop(control);
        let status = self.end(&mut child, died_by_itself && !cancelled);
        let mut error = BootError::plain(match &refusal {
            _ if cancelled => "the spawn was cancelled.".to_owned(),
            Refusal::TimedOut => format!(
                "the application did not become ready within {} s. \
                 Raise --start-timeout if it needs longer to boot.",
                self.options.start_timeout.as_secs_f64()
            ),
            Refusal::HungUp => {
                format!("the application exited before it was ready ({status}).")
            }
            Refusal::Error { .. } => "the application failed to boot.".to_owned(),
            Refusal::Unready(why) => why.clone(),
            Refusal::Protocol(why) => format!("the loader broke the handshake protocol: {why}."),
            Refusal::Io(why) => format!("the channel to the loader failed: {why}."),
        });
        if let Refusal::Error { text, .. } = &refusal
            && let Some(why) = text.strip_prefix(prepare::FAILED)
        {
            return self.cannot_start(why);
        }
        if let Refusal::Error { html, text } = refusal {
            (error.html, error.message) = (html, text);
        }
        let log;
        (error.output, log) = output.failed();
        self.explain(&mut error);
        let last = self.last_failure().replace(error.to_string());
        if last != Some(error.to_string()) {
            if log == BootLog::Held {
                output.log_lines("boot", &error.output);
            }
            output.log_lines("error", &error.message);
        }
        error
    }

    fn last_failure(&self) -> MutexGuard<'_, Option<String>> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the next process logs its output at once.
    fn boot_log(&self) -> BootLog {
        if self.last_failure().is_some() { BootLog::Held } else { BootLog::Live }
    }

    /// Reaps the child and describes its exit status.
    ///
    /// A child that has hung up is about to exit. The function waits a moment, so that the status is the
    /// child's own and not that of a kill.
    fn end(&self, child: &mut AppChild, is_leaving: bool) -> String {
        let deadline = Instant::now() + Duration::from_millis(500);
        while is_leaving && Instant::now() < deadline && !has_exited(child) {
            std::thread::sleep(Duration::from_millis(5));
        }
        lifeline::described(self.children.reap(child))
    }
}

impl Spawner for AppSpawner {
    type Process = AppProcess;

    fn spawn(&self, request: &SpawnRequest) -> Result<AppProcess, SpawnError> {
        self.boot(request).map_err(SpawnError::new)
    }

    /// Ends the preloader, which has loaded the outdated code.
    fn reload(&self, _: &PoolOptions) {
        if let Some(preloading) = &self.preloading {
            preloading.reload();
        }
    }
}

/// Fails if the socket `main` has another protocol than the definition of the type.
fn must_speak(custom: &CustomLoader, ready: &Ready) -> Result<(), Refusal> {
    let main = ready.sockets.iter().find(|socket| socket.name == "main");
    match (main.map(|socket| socket.protocol), custom.protocol) {
        (Some(spoken), Some(defined)) if spoken != defined => Err(Refusal::Protocol(format!(
            "its socket `main` has the protocol {}, and the definition of the type says {}",
            spoken.name(),
            defined.name()
        ))),
        _ => Ok(()),
    }
}

/// The programs of a type.
#[derive(Clone, Copy)]
enum Role {
    Loader,
    Preloader,
}

/// The names of streams, and our ends of their pipes.
type Pipes = [(&'static str, Option<OwnedFd>); 2];

/// A process that is not ready yet.
struct Starting {
    child: AppChild,
    /// The channel to its loader, if it has one.
    control: Option<Arc<UnixStream>>,
    output: Arc<Output>,
    /// Disconnects when the pipes of its output have been read to their ends.
    output_ended: Mutex<Receiver<()>>,
}

/// A process with a loader, and the channel to it.
type Started = (Starting, Arc<UnixStream>);

/// How a process that is ready takes requests.
struct Serving {
    socket: Socket,
    held: Option<HeldSocket>,
    idle_end: IdleEnd,
    password: String,
    /// The output that was read with the answer of the loader.
    rest: Vec<u8>,
}

impl Serving {
    fn at(socket: Socket, held: Option<HeldSocket>, idle_end: IdleEnd) -> Serving {
        Serving { socket, held, idle_end, password: String::new(), rest: Vec::new() }
    }
}

/// Returns the channel for tasks of the runtime.
fn nonblocking(control: &UnixStream) -> io::Result<tokio::net::UnixStream> {
    let control = control.try_clone()?;
    control.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(control)
}

/// Ends the blocking reads of a spawn that is cancelled.
///
/// The hook holds a weak reference, so that it does not keep the channel open after the process's end.
fn shut_down_on_cancel(request: &SpawnRequest, channel: &Arc<UnixStream>) {
    let channel = Arc::downgrade(channel);
    request.cancel().on_cancel(move || {
        if let Some(control) = channel.upgrade() {
            let _ = control.shutdown(std::net::Shutdown::Both);
        }
    });
}

/// Returns whether the child has exited. It stays unreaped, so that its pid is not reused.
fn has_exited(child: &AppChild) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return true };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}

fn broken(e: io::Error) -> BootError {
    BootError::plain(format!("cannot start a process: {e}."))
}
