//! The life of one process from the time it serves: its end is noticed at once, expected or not, it is
//! helped along when it was told to leave and does not, and it is always reaped.

use super::WeakPool;
use super::children::{Children, kill_group};
use super::process::AppInfo;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a process may take to leave before it is sent SIGTERM, and then again before SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Is done when the process ends.
///
/// A thread of its own waits for it: tokio can watch a pidfd, but only by an `unsafe` call, which this
/// project does without. There are as many of these threads as application processes, all asleep.
#[derive(Debug)]
pub(crate) struct Exit(oneshot::Receiver<()>);

impl Exit {
    pub(crate) fn of(child: &Child) -> io::Result<Exit> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no such pid"))?;
        let (ended, exit) = oneshot::channel();
        std::thread::Builder::new().name(format!("app {}", child.id())).spawn(move || {
            // Looks without reaping: the number stays the child's until the lifeline is done with it.
            let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), look).is_err_and(|e| e == rustix::io::Errno::INTR) {}
            let _ = ended.send(());
        })?;
        Ok(Exit(exit))
    }

    /// Not to be asked again once it is done.
    async fn done(&mut self) {
        let _ = (&mut self.0).await;
    }
}

/// Watches the process to its end.
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
    let by_us = expected && see_out(&mut exit, &info).await;
    info.exited.store(true, Ordering::Release);
    if !expected && let Some(pool) = pool.get().and_then(WeakPool::upgrade) {
        pool.detach(info.key.identifier);
    }
    let status = reap(&mut child, &children);
    info.connections.close_kept(&info.key);
    if let super::handshake::Address::Unix(path) = &info.key.address {
        let _ = std::fs::remove_file(path); // most loaders have done so themselves
    }
    let clean = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    let status = described(status);
    if expected && (by_us || clean) {
        tracing::debug!(pid = info.pid, "App {} has left: {status}", info.pid);
    } else {
        tracing::warn!(pid = info.pid, "App {} ended unexpectedly: {status}", info.pid);
    }
}

/// Returns whether it took a signal.
async fn see_out(exit: &mut Exit, info: &AppInfo) -> bool {
    let hurry = info.hurry.load(Ordering::Acquire);
    if !hurry && tokio::time::timeout(GRACE, exit.done()).await.is_ok() {
        return false;
    }
    kill_group(info.pid, Signal::TERM);
    if tokio::time::timeout(GRACE, exit.done()).await.is_ok() {
        return true;
    }
    tracing::warn!(pid = info.pid, "App {} does not leave: killing it", info.pid);
    kill_group(info.pid, Signal::KILL);
    exit.done().await;
    true
}

/// Takes leave of a process that has ended, and ends what it left in its process group: helpers that
/// nobody will use again. (What is to outlive it, such as a daemon, has a session of its own.)
pub(crate) fn reap(child: &mut Child, children: &Children) -> io::Result<ExitStatus> {
    // In this order: until it has been waited for, nobody else can get its number.
    kill_group(child.id(), Signal::KILL);
    children.remove(child.id());
    child.wait()
}

/// In words.
pub(crate) fn described(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(e) => format!("its exit status is lost: {e}"),
    }
}
