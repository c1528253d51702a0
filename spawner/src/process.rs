//! One application process that serves: connecting to it, and shutting it down.

use crate::chain::Chain;
use crate::connections::{Connections, Endpoint};
use crate::ended::is_exiting;
use crate::handshake::Protocol;
use crate::held_socket::HeldSocket;
use crate::process_group::Leader;
use crate::stream::{self, Opened};
use cabrank::application_pool::{ConnectError, Process, ShutDown};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// The longest time for a look whether a process is dying.
const LOOK: Duration = Duration::from_secs(1);

/// The pool's handle to a process.
#[derive(Debug)]
pub struct AppProcess(pub(crate) Arc<AppInfo>);

/// The data of a process, shared by the pool, its sessions and its lifeline.
#[derive(Debug)]
pub struct AppInfo {
    /// The process's pid.
    pub pid: u32,
    /// Signals go to the process and its group by this value, and only until the process is reaped.
    pub leader: Arc<Leader>,
    /// The process's place in the pool, its address, and whether it has ended.
    pub endpoint: Arc<Endpoint>,
    /// The protocol of its socket.
    pub protocol: Protocol,
    /// The number of simultaneous sessions; 0: any number.
    pub concurrency: usize,
    /// The secret that each request in the session protocol carries, and each one with an origin.
    pub password: String,
    /// The process's Unix socket. The address in `endpoint` is valid as long as it is held.
    pub(crate) held: Option<HeldSocket>,
    /// The server's end of the socketpair that is a loader's standard input. The process exits when this end
    /// closes, even if the server was killed. `None`: a process without a loader, which a signal asks to leave.
    pub(crate) control: Option<OwnedWriteHalf>,
    /// Whether its loader ends its WebSockets when it is asked to. False once it was asked.
    pub(crate) ends_websockets: AtomicBool,
    /// Whether SIGQUIT makes it write a backtrace, and go on. It ends other processes, unless they handle it.
    pub writes_backtraces: bool,
    /// Whether its requests in HTTP begin with their origin.
    pub takes_origin: bool,
    /// Whether its kept sessions may switch to another protocol.
    pub takes_upgrades: bool,
    /// Whether it has been given a session.
    pub(crate) had_session: AtomicBool,
    /// Whether it has answered a request.
    pub(crate) has_answered: AtomicBool,
    /// Notifies the lifeline that the process was asked to leave.
    pub(crate) leave: Notify,
    /// The connections to all processes that stay open between requests (`http_session`).
    pub connections: Connections,
}

/// The connection of a session.
#[derive(Debug)]
pub struct AppConnection {
    /// The process.
    pub process: Arc<AppInfo>,
    /// The request's own connection in the session protocol. In the other protocol the request's task
    /// borrows one later, because a task can wait for it.
    pub opened: Option<Opened>,
}

impl Process for AppProcess {
    type Connection = AppConnection;

    fn connect(&self) -> Result<AppConnection, ConnectError> {
        let info = &self.0;
        if info.endpoint.has_exited() {
            return Err(ConnectError::process("the process has ended"));
        }
        let opened = if info.protocol.keeps_connections() {
            None
        } else {
            let log = |e: &ConnectError| {
                let pid = info.pid;
                tracing::warn!(pid, "process {pid} takes no connection: {}", Chain(e));
            };
            Some(stream::open(&info.endpoint.address).inspect_err(log)?)
        };
        info.had_session.store(true, Ordering::Release);
        Ok(AppConnection { process: Arc::clone(info), opened })
    }

    fn concurrency(&self) -> Option<NonZeroUsize> {
        NonZeroUsize::new(self.0.concurrency)
    }

    fn pid(&self) -> Option<u32> {
        Some(self.0.pid)
    }

    fn shut_down(&self, _: ShutDown) {
        let info = &self.0;
        info.connections.drains(info.endpoint.identifier);
        // First: the process may end as soon as it is asked.
        info.leave.notify_one();
        if let Some(control) = &info.control {
            // Some loaders wait for a byte and some for the end of input, so send both. The byte is `s` if no other
            // process takes its place. If the process has
            // ended already, both fail without harm.
            let why: &[u8] = if info.connections.leaving.is_stopping() { b"s" } else { b"\n" };
            let _ = control.try_write(why);
            let _ = rustix::net::shutdown(control.as_ref(), rustix::net::Shutdown::Write);
        }
        info.connections.close_idle(&info.endpoint);
    }
}

impl AppInfo {
    /// Creates the data of a process that the caller has started itself, without a loader.
    ///
    /// [`AppSpawner`](crate::AppSpawner) does so for its own processes. Tests of a server play processes this way.
    pub fn new(
        leader: Arc<Leader>,
        endpoint: Arc<Endpoint>,
        protocol: Protocol,
        concurrency: usize,
        password: String,
        connections: Connections,
    ) -> AppInfo {
        AppInfo {
            pid: leader.pid(),
            leader,
            endpoint,
            protocol,
            concurrency,
            password,
            held: None,
            control: None,
            ends_websockets: false.into(),
            writes_backtraces: false,
            takes_origin: false,
            takes_upgrades: false,
            had_session: false.into(),
            has_answered: false.into(),
            leave: Notify::new(),
            connections,
        }
    }

    /// Asks the process to end its WebSockets. Its other requests go on.
    ///
    /// A process whose loader does not know the request ends its upgraded connections when it leaves. Only the first call
    /// has an effect: the loader also ends WebSockets that it accepts later.
    pub fn end_websockets(&self) {
        if let Some(control) = &self.control
            && self.ends_websockets.swap(false, Ordering::Relaxed)
        {
            let why: &[u8] = if self.connections.leaving.is_stopping() { b"g" } else { b"r" };
            // A process that has ended already takes no byte.
            let _ = control.try_write(why);
        }
    }

    /// Notes that the process has answered a request completely.
    pub fn set_answered(&self) {
        // Each request calls this. A store would take the cache line from the other cores.
        if !self.has_answered() {
            self.has_answered.store(true, Ordering::Release);
        }
    }

    /// Returns whether the process has answered a request completely.
    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Acquire)
    }

    /// Returns whether the process has ended or is exiting.
    ///
    /// Call it when a connection broke: the kernel closes the connections of a dying process before it
    /// reports its end. The look at `/proc` runs on a thread that may block. All of these may wait for a file system
    /// that hangs, so after a time the word of the lifeline counts.
    pub async fn is_dying(self: &Arc<Self>) -> bool {
        if self.endpoint.has_exited() {
            return true;
        }
        let info = Arc::clone(self);
        let look = tokio::task::spawn_blocking(move || info.looks_dying());
        match tokio::time::timeout(LOOK, look).await {
            Ok(looked) => looked.unwrap_or(true),
            Err(_) => self.endpoint.has_exited(),
        }
    }

    fn looks_dying(&self) -> bool {
        let process = procfs::process::Process::new(self.pid.cast_signed());
        process.map_or(true, |process| is_exiting(&process))
    }
}
