//! The boot of a process with a loader: the handshake, the sockets, and the pool's handle.

use super::application::{Application, Role, Started, Starting, broken};
use crate::app_type::{CustomLoader, Launch};
use crate::boot_error::BootError;
use crate::connections::IdleEnd;
use crate::file_rights::with_rights_of;
use crate::handshake::{self, Address, Ready, Refusal, Socket};
use crate::held_socket::HeldSocket;
use crate::lifeline;
use crate::process::{AppInfo, AppProcess};
use crate::random;
use cabrank::application_pool::SpawnRequest;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// The time after which the log says that a process is still starting.
const SLOW: Duration = Duration::from_secs(2);

impl Application {
    pub(super) fn boot(&self, request: &SpawnRequest) -> Result<AppProcess, BootError> {
        self.check()?;
        let slow = self.note_slow_boot();
        let booted = match &self.options.app.launch {
            Launch::Loader { .. } => self.boot_loader(request, None),
            Launch::Custom(custom) => self.boot_loader(request, Some(custom)),
            Launch::Command(command) => self.boot_command(command, request),
        };
        slow.abort();
        booted
    }

    /// Fails if the program does not let the application start.
    fn check(&self) -> Result<(), BootError> {
        let Some(check) = &self.options.check else { return Ok(()) };
        // A link may stand in the place of each file.
        let user = self.options.user.as_ref();
        let allowed = with_rights_of(user, || Ok(check.allows(&self.options.app)));
        allowed.map_err(broken)?.map_err(BootError::plain)
    }

    /// Logs a line if the boot lasts, so that an operator who waits knows for what.
    fn note_slow_boot(&self) -> AbortHandle {
        let (group, limit) = (self.options.group_name.clone(), self.options.start_timeout);
        let note = async move {
            tokio::time::sleep(SLOW).await;
            tracing::info!(
                "{group}: a process has been starting for {} s, and has {} s (--start-timeout)",
                SLOW.as_secs(),
                limit.as_secs_f64()
            );
        };
        self.shared.runtime.spawn(note).abort_handle()
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
        let (ends_websockets, takes_origin) = (ready.ends_websockets, ready.takes_origin);
        let takes_upgrades = ready.takes_upgrades;
        let Some(mut socket) = ready.preferred().cloned() else {
            return Err(Refusal::Protocol("the loader did not name a socket `main`".into()));
        };
        let uid = self.uid();
        let Address::Unix(path) = &socket.address else {
            let serving = Serving::at(socket, None, idle_end);
            return Ok(Serving { ends_websockets, takes_origin, takes_upgrades, ..serving });
        };
        let instance = &self.shared.instance;
        let held = HeldSocket::open(path, uid, &instance.backends_of(path));
        let held = held.map_err(Refusal::Protocol)?;
        // The server never connects to the other sockets. A killed process would leave their files behind.
        for other in &ready.sockets {
            if let Address::Unix(other) = &other.address
                && *other != *path
                && let Ok(unused) = HeldSocket::open(other, uid, &instance.backends_of(other))
            {
                unused.remove();
            }
        }
        socket.address = held.address();
        let serving = Serving::at(socket, Some(held), idle_end);
        Ok(Serving { ends_websockets, takes_origin, takes_upgrades, ..serving })
    }

    /// Turns a ready process into the pool's handle, and starts its lifeline.
    pub(super) fn ready(
        &self,
        starting: Starting,
        serving: Serving,
        request: &SpawnRequest,
    ) -> Result<AppProcess, BootError> {
        let _in_runtime = self.shared.runtime.enter();
        let control = starting.control.as_deref().map(nonblocking).transpose();
        let prepared = control.and_then(|c| Ok((c, lifeline::Exit::of(&starting.child)?)));
        let (control, exit) = match prepared {
            Ok(both) => both,
            Err(e) => return Err(self.boot_failed(starting, Refusal::Io(e.to_string()), false)),
        };
        let (stdout, control) = control.map(tokio::net::UnixStream::into_split).unzip();
        let Starting { child, output, control: original, number, .. } = starting;
        drop(original);
        let Serving {
            socket,
            held,
            idle_end,
            rest,
            password,
            ends_websockets,
            takes_origin,
            takes_upgrades,
        } = serving;
        output.ready();
        // A preloader of another author may have named it too soon.
        self.shared.children.note_session(&child);
        self.last_failure().take();
        let defined = match &self.options.app.launch {
            Launch::Custom(custom) => custom.concurrency,
            _ => None,
        };
        let endpoint =
            self.shared.connections.endpoint(request.identifier(), socket.address, idle_end);
        let concurrency = self.options.concurrency.or(defined).unwrap_or(socket.concurrency);
        let connections = self.shared.connections.clone();
        let info = Arc::new(AppInfo {
            held,
            control,
            ends_websockets: ends_websockets.into(),
            writes_backtraces: matches!(self.options.app.launch, Launch::Loader { .. }),
            takes_origin,
            takes_upgrades,
            ..AppInfo::new(
                Arc::clone(child.leader()),
                endpoint,
                socket.protocol,
                concurrency,
                password,
                connections,
            )
        });
        if let Some(stdout) = stdout {
            self.shared.runtime.spawn(async move { output.forward("stdout", stdout, rest).await });
        }
        self.shared.runtime.spawn(lifeline::hold(
            child,
            number,
            exit,
            Arc::clone(&info),
            Arc::clone(&self.shared.reports),
            Arc::clone(&self.shared.children),
        ));
        Ok(AppProcess(info))
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

/// How a process that is ready takes requests.
pub(super) struct Serving {
    socket: Socket,
    held: Option<HeldSocket>,
    idle_end: IdleEnd,
    password: String,
    ends_websockets: bool,
    takes_origin: bool,
    takes_upgrades: bool,
    /// The output that was read with the answer of the loader.
    rest: Vec<u8>,
}

impl Serving {
    pub(super) fn at(socket: Socket, held: Option<HeldSocket>, idle_end: IdleEnd) -> Serving {
        let (password, ends_websockets, takes_origin, takes_upgrades, rest) = Default::default();
        Serving {
            socket,
            held,
            idle_end,
            password,
            ends_websockets,
            takes_origin,
            takes_upgrades,
            rest,
        }
    }
}

/// Returns the channel for tasks of the runtime.
pub(super) fn nonblocking(control: &UnixStream) -> io::Result<tokio::net::UnixStream> {
    let control = control.try_clone()?;
    control.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(control)
}

/// Ends the blocking reads of a spawn that is cancelled.
///
/// The hook holds a weak reference, so that it does not keep the channel open after the process's end.
pub(super) fn shut_down_on_cancel(request: &SpawnRequest, channel: &Arc<UnixStream>) {
    let channel = Arc::downgrade(channel);
    request.cancel().on_cancel(move || {
        if let Some(control) = channel.upgrade() {
            let _ = control.shutdown(std::net::Shutdown::Both);
        }
    });
}
