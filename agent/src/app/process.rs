//! One application process that serves: how requests connect to it, and how it is told to leave.

use super::connections::{Connections, ProcessKey};
use super::handshake::Protocol;
use super::stream::{self, Opened};
use cabrank::{ConnectError, Process, ShutDown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// `PF_EXITING` of the kernel's task flags: the process is on its way out.
const EXITING: u32 = 0x4;

/// The pool's handle to a process.
#[derive(Debug)]
pub(crate) struct AppProcess(pub(crate) Arc<AppInfo>);

/// What is known of a process, shared by the pool, its sessions and its lifeline.
#[derive(Debug)]
pub(crate) struct AppInfo {
    pub(crate) pid: u32,
    /// Which process of the pool's it is, and where it listens.
    pub(crate) key: ProcessKey,
    pub(crate) protocol: Protocol,
    pub(crate) concurrency: usize,
    pub(crate) password: String,
    /// The agent's end of the socketpair that is the process's standard input. When it closes, even
    /// because the agent was killed, the process leaves.
    pub(crate) control: OwnedWriteHalf,
    /// Told to leave: the lifeline takes it from there.
    pub(crate) leave: Notify,
    /// Without the grace period.
    pub(crate) hurry: AtomicBool,
    pub(crate) exited: AtomicBool,
    /// Those of all processes that stay open between requests (`http_session`).
    pub(crate) connections: Connections,
}

/// What a request may be sent over.
#[derive(Debug)]
pub(crate) struct AppConnection {
    pub(crate) process: Arc<AppInfo>,
    /// A connection of this request's own, in the protocol that has one for each. In the other, one is
    /// borrowed once there is a task that can wait for it.
    pub(crate) opened: Option<Opened>,
}

impl Process for AppProcess {
    type Connection = AppConnection;

    fn connect(&self) -> Result<AppConnection, ConnectError> {
        let info = &self.0;
        if info.exited.load(Ordering::Acquire) {
            return Err(ConnectError::process("the process has ended"));
        }
        let opened = match info.protocol {
            Protocol::Session => Some(stream::open(&info.key.address)?),
            Protocol::HttpSession => None,
        };
        Ok(AppConnection { process: Arc::clone(info), opened })
    }

    fn concurrency(&self) -> usize {
        self.0.concurrency
    }

    fn pid(&self) -> Option<u32> {
        Some(self.0.pid)
    }

    fn shut_down(&self, how: ShutDown) {
        let info = &self.0;
        if how == ShutDown::DeadlinePassed {
            info.hurry.store(true, Ordering::Release);
        }
        // Loaders differ in what they wait for, a byte or the end of input: they get both. If the
        // process has ended already both fail, which is as good.
        let _ = info.control.try_write(b"\n");
        let _ = rustix::net::shutdown(info.control.as_ref(), rustix::net::Shutdown::Write);
        info.connections.close_kept(&info.key);
        info.leave.notify_one();
    }
}

impl AppInfo {
    /// Whether the process has ended or is about to: asked when one of its connections broke, because
    /// the kernel closes a dying process's connections before it reports its end.
    pub(crate) fn is_dying(&self) -> bool {
        if self.exited.load(Ordering::Acquire) {
            return true;
        }
        let stat = i32::try_from(self.pid)
            .map_err(|_| ())
            .and_then(|pid| procfs::process::Process::new(pid).map_err(|_| ()))
            .and_then(|p| p.stat().map_err(|_| ()));
        stat.map_or(true, |s| s.flags & EXITING != 0 || matches!(s.state, 'Z' | 'X'))
    }
}
