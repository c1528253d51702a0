//! Starts application processes: the pool's [`Spawner`].
//!
//! One Unix socketpair is the loader's standard input and output; standard error is a pipe.
//! `std::process::Command` starts the process, so no code of ours runs between fork and exec. The steps
//! that belong there run in [`prepare`], a process image before the loader's.
//!
//! A newline must come before the loader's first line, so that unfinished output of a start-up script
//! cannot hide it. The agent writes this newline into the child's end of the socketpair before the child
//! exists. So the newline comes first for certain, without a shell or a helper.

use super::WeakPool;
use super::boot_error::BootError;
use super::children::{Children, kill_group};
use super::connections::Connections;
use super::forker::Forker;
use super::handshake::{self, Address, Ready, Refusal, Socket};
use super::held_socket::HeldSocket;
use super::lifeline;
use super::output::{BootLog, Output};
use super::prepare;
use super::process::{AppInfo, AppProcess};
use crate::config::Settings;
use crate::config::app_type::Interpreter;
use crate::config::environment::VARIABLES;
use crate::instance_dir::Instance;
use crate::random;
use cabrank::application_pool::{SpawnError, SpawnRequest, Spawner};
use rustix::process::Signal;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

/// The longest wait for the rest of the output of a process that failed to boot.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// Spawns the processes of one application.
pub(crate) struct AppSpawner {
    settings: Arc<Settings>,
    instance: Instance,
    children: Arc<Children>,
    forker: Forker,
    /// The error of the last process, if it has not become ready.
    last_failure: Mutex<Option<String>>,
    connections: Connections,
    pool: Arc<OnceLock<WeakPool>>,
    runtime: Handle,
}

impl AppSpawner {
    /// Creates the spawner. The caller sets `pool` once the pool exists.
    pub(crate) fn new(
        settings: Arc<Settings>,
        instance: Instance,
        children: Arc<Children>,
        connections: Connections,
        pool: Arc<OnceLock<WeakPool>>,
        runtime: Handle,
    ) -> io::Result<Self> {
        Ok(AppSpawner {
            settings,
            instance,
            forker: Forker::start(Arc::clone(&children))?,
            last_failure: Mutex::default(),
            children,
            connections,
            pool,
            runtime,
        })
    }

    fn start(&self) -> Result<Starting, BootError> {
        let settings = &self.settings;
        let loader = self.loader()?;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        (&theirs).write_all(b"\n").map_err(broken)?;
        let mut command = prepare::command(settings.interpreter(), settings.user.as_ref());
        command
            .arg(&loader)
            .current_dir(&settings.app.root)
            .env("IN_PASSENGER", "1")
            .env("PYTHONUNBUFFERED", "1")
            .stdin(OwnedFd::from(theirs.try_clone().map_err(broken)?))
            .stdout(OwnedFd::from(theirs))
            .stderr(Stdio::piped());
        for name in VARIABLES {
            command.env(name, &settings.environment);
        }
        let mut child = self.forker.spawn(command).map_err(|e| self.cannot_fork(e))?;
        let output = Arc::new(Output::new(child.id(), self.boot_log()));
        let (stderr_open, stderr_ended) = channel();
        let _in_runtime = self.runtime.enter();
        if let Some(stderr) = child.stderr.take() {
            let stderr = pipe::Receiver::from_owned_fd(stderr.into()).map_err(|e| {
                kill_group(child.id(), Signal::KILL);
                let _ = self.children.reap(&mut child);
                broken(e)
            })?;
            let output = Arc::clone(&output);
            self.runtime.spawn(async move {
                output.forward("stderr", stderr, Vec::new()).await;
                drop(stderr_open);
            });
        }
        Ok(Starting {
            child,
            control: Arc::new(ours),
            output,
            stderr_ended: Mutex::new(stderr_ended),
        })
    }

    fn loader_path(&self) -> PathBuf {
        self.instance.path().join(self.settings.app.loader.file)
    }

    /// Writes the loader into the instance directory, unless it is there.
    fn loader(&self) -> Result<PathBuf, BootError> {
        let write = || {
            self.instance.restore()?;
            let path = self.loader_path();
            match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path) {
                Ok(mut file) => file.write_all(self.settings.app.loader.source.as_bytes())?,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
            Ok(path)
        };
        write().map_err(|e| {
            BootError::plain(format!(
                "cannot write the loader into {}: {e}. Check the free space there.",
                self.instance.path().display()
            ))
        })
    }

    fn cannot_fork(&self, e: io::Error) -> BootError {
        let root = &self.settings.app.root;
        if e.kind() == io::ErrorKind::NotFound && !root.is_dir() {
            return BootError::plain(format!(
                "the application's directory {} no longer exists. Restore it, or stop this agent.",
                root.display()
            ));
        }
        broken(e)
    }

    /// Returns the error of a process that could not execute the interpreter.
    fn cannot_start(&self, why: &str) -> BootError {
        let option = match self.settings.app.loader.interpreter {
            Interpreter::Python => "--python",
            Interpreter::Node => "--nodejs",
        };
        BootError::plain(format!("{why}. Install the interpreter, or name another with {option}."))
    }

    /// Returns the keys that the handshake sends, in the order of the protocol.
    fn keys(&self, password: &str) -> Vec<(&'static str, String)> {
        let s = &self.settings;
        let minutes = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs() / 60);
        let mut keys = vec![
            ("passenger_root", self.instance.path().display().to_string()),
            ("passenger_version", env!("CARGO_PKG_VERSION").into()),
            ("generation_dir", self.instance.generation().display().to_string()),
            ("gupid", format!("{minutes:x}-{}", random::characters(11))),
            ("connect_password", password.into()),
            ("app_root", s.app.root.display().to_string()),
            ("app_group_name", s.group_name()),
            ("app_type", s.app.app_type.name.into()),
            (
                "start_command",
                format!("{}\t{}", s.interpreter().display(), self.loader_path().display()),
            ),
            ("startup_file", s.app.startup_file.clone()),
            ("process_title", format!("{}: {}", s.app.app_type.title, s.app.root.display())),
            ("log_level", format!("{:?}", s.log_level).to_lowercase()),
            ("start_timeout", s.start_timeout.as_millis().to_string()),
            ("environment", s.environment.clone()),
            ("spawn_method", "direct".into()),
            ("restart_dir", s.restart_dir.display().to_string()),
        ];
        // A busy Node process runs no signal handler: its loader watches the time itself.
        keys.extend(s.max_request_time.map(|t| ("max_request_time", t.as_millis().to_string())));
        keys
    }

    fn boot(&self, request: &SpawnRequest) -> Result<AppProcess, BootError> {
        let deadline = Instant::now() + self.settings.start_timeout;
        let password = random::characters(43);
        let starting = self.start()?;
        // On cancellation the hook shuts the channel down, which ends the blocking read below. It holds a
        // weak reference, so that it does not keep the channel open after the process's end.
        let channel = Arc::downgrade(&starting.control);
        request.cancel().on_cancel(move || {
            if let Some(control) = channel.upgrade() {
                let _ = control.shutdown(std::net::Shutdown::Both);
            }
        });
        let answer =
            handshake::perform(&starting.control, &self.keys(&password), deadline, |line| {
                starting.output.line("stdout", line);
            });
        let checked = answer.and_then(|(ready, rest)| Ok((self.main_socket(ready)?, rest)));
        match checked {
            Ok((socket, rest)) => self.ready(starting, socket, rest, password, request),
            Err(refusal) => {
                let cancelled = request.cancel().is_cancelled();
                Err(self.boot_failed(starting, refusal, cancelled))
            }
        }
    }

    /// Returns the socket for requests. A Unix socket is held, and reachable at its new address.
    fn main_socket(&self, ready: Ready) -> Result<(Socket, Option<HeldSocket>), Refusal> {
        let Some(mut socket) = ready.preferred().cloned() else {
            return Err(Refusal::Protocol("the loader did not name a socket `main`".into()));
        };
        let Address::Unix(path) = &mut socket.address else { return Ok((socket, None)) };
        let own = || rustix::process::geteuid().as_raw();
        let uid = self.settings.user.as_ref().map_or_else(own, |user| user.uid);
        let held = HeldSocket::open(path, uid).map_err(Refusal::Protocol)?;
        // The agent never connects to the other sockets. A killed process would leave their files behind.
        for other in &ready.sockets {
            if let Address::Unix(other) = &other.address
                && *other != *path
                && let Ok(unused) = HeldSocket::open(other, uid)
            {
                unused.remove();
            }
        }
        *path = held.address();
        Ok((socket, Some(held)))
    }

    /// Turns a ready process into the pool's handle, and starts its lifeline.
    fn ready(
        &self,
        starting: Starting,
        (socket, held): (Socket, Option<HeldSocket>),
        rest: Vec<u8>,
        password: String,
        request: &SpawnRequest,
    ) -> Result<AppProcess, BootError> {
        let _in_runtime = self.runtime.enter();
        let prepared = starting
            .control
            .try_clone()
            .and_then(|control| {
                control.set_nonblocking(true)?;
                tokio::net::UnixStream::from_std(control)
            })
            .and_then(|control| Ok((control, lifeline::Exit::of(&starting.child)?)));
        let (control, exit) = match prepared {
            Ok(both) => both,
            Err(e) => return Err(self.boot_failed(starting, Refusal::Io(e.to_string()), false)),
        };
        let (stdout, control) = control.into_split();
        let Starting { child, output, control: original, .. } = starting;
        drop(original);
        output.ready();
        self.last_failure().take();
        let info = Arc::new(AppInfo {
            pid: child.id(),
            endpoint: self.connections.endpoint(request.identifier(), socket.address),
            protocol: socket.protocol,
            concurrency: self.settings.forced_concurrency.unwrap_or(socket.concurrency),
            password,
            held,
            control,
            leave: tokio::sync::Notify::new(),
            hurry: false.into(),
            connections: self.connections.clone(),
        });
        self.runtime.spawn(async move { output.forward("stdout", stdout, rest).await });
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
        let Starting { mut child, control, output, stderr_ended } = starting;
        let died_by_itself = matches!(refusal, Refusal::HungUp | Refusal::Error { .. });
        if cancelled || !died_by_itself {
            kill_group(child.id(), Signal::KILL);
        }
        if !cancelled {
            let ended = stderr_ended.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _: Result<(), _> = ended.recv_timeout(OUTPUT_TIMEOUT);
        }
        drop(control);
        let status = self.end(&mut child, died_by_itself && !cancelled);
        let mut error = BootError::plain(match &refusal {
            _ if cancelled => "the spawn was cancelled.".to_owned(),
            Refusal::TimedOut => format!(
                "the application did not become ready within {} s. \
                 Raise --start-timeout if it needs longer to boot.",
                self.settings.start_timeout.as_secs_f64()
            ),
            Refusal::HungUp => {
                format!("the application exited before it was ready ({status}).")
            }
            Refusal::Error { .. } => "the application failed to boot.".to_owned(),
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
    fn end(&self, child: &mut Child, is_leaving: bool) -> String {
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
}

/// A process that is not ready yet.
struct Starting {
    child: Child,
    control: Arc<UnixStream>,
    output: Arc<Output>,
    /// Disconnects when standard error has been read to its end.
    stderr_ended: Mutex<Receiver<()>>,
}

/// Returns whether the child has exited. It stays unreaped, so that its pid is not reused.
fn has_exited(child: &Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return true };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), look), Ok(None))
}

fn broken(e: io::Error) -> BootError {
    BootError::plain(format!("cannot start a process: {e}."))
}
