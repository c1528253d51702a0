//! The life of one process from the moment it serves to its end.
//!
//! The lifeline notices the end of its process at once, expected or not, and reaps it. A process that
//! does not follow a request to leave is sent signals.

use super::WeakPool;
use super::children::{Children, kill_group};
use super::held_socket::HeldSocket;
use super::process::AppInfo;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The time for a process to leave before SIGTERM, and again before SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for the end of a process.
///
/// Each process has one thread that waits for its end. tokio can watch a pidfd, but only by an `unsafe`
/// call, which this project forbids.
#[derive(Debug)]
pub(crate) struct Exit(oneshot::Receiver<()>);

impl Exit {
    pub(crate) fn of(child: &Child) -> io::Result<Exit> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no such pid"))?;
        let (ended, exit) = oneshot::channel();
        std::thread::Builder::new().name(format!("app {}", child.id())).spawn(move || {
            // NOWAIT leaves the process unreaped, so that its pid is not reused before `reap`.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), look).is_err_and(|e| e == rustix::io::Errno::INTR) {}
            let _ = ended.send(());
        })?;
        Ok(Exit(exit))
    }

    /// Waits for the end. The caller must not call it again afterwards.
    async fn done(&mut self) {
        let _ = (&mut self.0).await;
    }
}

/// Watches a process until its end, and reaps it.
pub(crate) async fn hold(
    mut child: Child,
    mut exit: Exit,
    info: Arc<AppInfo>,
    pool: Arc<OnceLock<WeakPool>>,
    children: Arc<Children>,
) {
    let expected = tokio::select! {
        biased;
        () = exit.done() => false,
        () = info.leave.notified() => true,
    };
    let was_signalled = expected && end_process(&mut exit, &info).await;
    info.endpoint.set_exited();
    if !expected && let Some(pool) = pool.get().and_then(WeakPool::upgrade) {
        pool.process_has_failed(info.endpoint.identifier);
    }
    let status = children.reap(&mut child);
    info.connections.close_idle(&info.endpoint);
    let pid = info.pid;
    // Most loaders remove their socket themselves.
    let _ = tokio::task::spawn_blocking(move || info.held.as_ref().map(HeldSocket::remove)).await;
    let clean = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    let status = described(status);
    if expected && (was_signalled || clean) {
        tracing::debug!(pid, "App {} has exited: {status}", pid);
    } else {
        tracing::warn!(pid, "process {} ended unexpectedly: {status}", pid);
    }
}

/// Waits until a process that was asked to leave ends. Returns whether a signal was necessary.
async fn end_process(exit: &mut Exit, info: &AppInfo) -> bool {
    let hurry = info.hurry.load(Ordering::Acquire);
    if !hurry && tokio::time::timeout(GRACE, exit.done()).await.is_ok() {
        return false;
    }
    kill_group(info.pid, Signal::TERM);
    if tokio::time::timeout(GRACE, exit.done()).await.is_ok() {
        return true;
    }
    tracing::warn!(pid = info.pid, "App {} does not exit: killing it", info.pid);
    kill_group(info.pid, Signal::KILL);
    exit.done().await;
    true
}

/// Describes the exit status in words.
pub(crate) fn described(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(e) => format!("exit status unknown: {e}"),
    }
}
