//! One application process that serves: how requests connect to it, and how it is told to leave.

use super::handshake::{Address, Protocol};
use super::stream::{self, Opened};
use crate::front::upload::Upload;
use cabrank::{ConnectError, Identifier, Process, ShutDown};
use hyper::client::conn::http1::SendRequest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Notify;

/// More idle connections than this are not worth their descriptors.
const MAX_KEPT: usize = 128;
/// `PF_EXITING` of the kernel's task flags: the process is on its way out.
const EXITING: u32 = 0x4;

/// The pool's handle to a process.
#[derive(Debug)]
pub(crate) struct AppProcess(pub(crate) Arc<AppInfo>);

/// What is known of a process, shared by the pool, its sessions and its lifeline.
#[derive(Debug)]
pub(crate) struct AppInfo {
    pub(crate) pid: u32,
    pub(crate) identifier: Identifier,
    pub(crate) address: Address,
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
    /// Connections that stay open between requests (`http_session`), the last used on top.
    pub(crate) kept: Mutex<Vec<SendRequest<Upload>>>,
}

/// One request's connection.
#[derive(Debug)]
pub(crate) struct AppConnection {
    pub(crate) process: Arc<AppInfo>,
    pub(crate) wire: Option<Wire>,
}

/// What a request is sent over.
#[derive(Debug)]
pub(crate) enum Wire {
    /// A new connection.
    New(Opened),
    /// One that has served before.
    Kept(SendRequest<Upload>),
}

impl Process for AppProcess {
    type Connection = AppConnection;

    fn connect(&self) -> Result<AppConnection, ConnectError> {
        let info = &self.0;
        if info.exited.load(Ordering::Acquire) {
            return Err(ConnectError::process("the process has ended"));
        }
        let kept = match info.protocol {
            Protocol::HttpSession => info.take_kept(),
            Protocol::Session => None,
        };
        let wire = match kept {
            Some(sender) => Wire::Kept(sender),
            None => Wire::New(stream::open(&info.address)?),
        };
        Ok(AppConnection { process: Arc::clone(info), wire: Some(wire) })
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
        info.drop_kept();
        info.leave.notify_one();
    }
}

impl AppInfo {
    fn stack(&self) -> std::sync::MutexGuard<'_, Vec<SendRequest<Upload>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The idle connection used last, of those that the process has not closed.
    fn take_kept(&self) -> Option<SendRequest<Upload>> {
        let mut stale = Vec::new();
        let mut stack = self.stack();
        let taken = loop {
            match stack.pop() {
                Some(sender) if !sender.is_ready() => stale.push(sender),
                other => break other,
            }
        };
        drop(stack);
        drop(stale); // wakes their tasks, which is not for under the lock
        taken
    }

    /// Keeps a connection whose answer has been read to its end.
    pub(crate) fn keep(&self, sender: SendRequest<Upload>) {
        let mut stack = self.stack();
        if stack.len() < MAX_KEPT {
            stack.push(sender);
        }
    }

    /// Closes all idle connections.
    pub(crate) fn drop_kept(&self) {
        let all = std::mem::take(&mut *self.stack());
        drop(all);
    }

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
