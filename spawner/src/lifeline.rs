//! The life of one process from the moment it serves to its end.
//!
//! The lifeline notices the end of its process at once, expected or not, and reaps it. A process that
//! does not follow a request to leave is sent signals.

use crate::children::{AppChild, Children};
use crate::held_socket::HeldSocket;
use crate::listening;
use crate::process::AppInfo;
use crate::reports::Reports;
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The time for the backtrace of a process that has not left in time.
const BACKTRACE: Duration = Duration::from_millis(500);
/// The time between the last SIGTERM and SIGKILL.
const LAST: Duration = Duration::from_secs(2);

/// Waits for the end of a process.
///
/// Each process has one thread that waits for its end. tokio can watch a pidfd, but only by an `unsafe`
/// call, which this project forbids.
#[derive(Debug)]
pub(crate) struct Exit(oneshot::Receiver<()>);

impl Exit {
    pub(crate) fn of(child: &AppChild) -> io::Result<Exit> {
        let leader = Arc::clone(child.leader());
        let (ended, exit) = oneshot::channel();
        std::thread::Builder::new().name(format!("app {}", child.id())).spawn(move || {
            leader.await_end();
            let _ = ended.send(());
        })?;
        Ok(Exit(exit))
    }

    /// Waits for the end. The caller must not call it again afterwards.
    pub(crate) async fn done(&mut self) {
        let _ = (&mut self.0).await;
    }
}

/// Watches a process until its end, and reaps it.
pub(crate) async fn hold(
    child: AppChild,
    mut exit: Exit,
    info: Arc<AppInfo>,
    reports: Arc<Reports>,
    children: Arc<Children>,
) {
    let expected = tokio::select! {
        biased;
        // A process that was asked to leave may have ended already.
        () = info.leave.notified() => true,
        () = exit.done() => false,
        // The program stops, and the process has requests still.
        () = info.connections.leaving.overdue_at_stop() => true,
    };
    let was_signalled = expected && end_process(&mut exit, &info).await;
    // The pool forgets the process before its connections are refused. Otherwise a request could find it in the pool, and
    // the pool would take the refusal for a failed start.
    if !expected {
        reports.ended(&info);
    }
    info.endpoint.set_exited();
    if expected && info.control.is_none() {
        await_group(&info).await;
    }
    let status = children.reap(child);
    info.connections.set_gone(&info.endpoint);
    let pid = info.pid;
    // Most loaders remove their socket themselves.
    let _ = tokio::task::spawn_blocking(move || info.held.as_ref().map(HeldSocket::remove)).await;
    // A process that handles SIGTERM itself often ends by it in the end.
    let is_regular = status
        .as_ref()
        .is_ok_and(|status| status.success() || status.signal() == Some(Signal::TERM.as_raw()));
    let status = described(status);
    if expected && (was_signalled || is_regular) {
        tracing::debug!(pid, "App {pid} has exited: {status}");
    } else {
        // Also if it was asked to exit: a broken connection can show a crash before its end is noticed.
        tracing::warn!(pid, "process {pid} ended unexpectedly: {status}");
    }
}

/// Waits until a process that was asked to leave ends. Returns whether a signal was necessary.
///
/// Until its deadline the process may finish what it does: a task in the background, a thread, a hook.
async fn end_process(exit: &mut Exit, info: &AppInfo) -> bool {
    let (pid, process, leaving) = (info.pid, info.endpoint.identifier, &info.connections.leaving);
    leaving.drains(process);
    let has_loader = info.control.is_some();
    if !has_loader {
        // Only a signal asks this process to leave, so it comes at once.
        info.leader.signal_group(Signal::TERM);
    }
    tokio::select! {
        biased;
        () = exit.done() => return !has_loader,
        () = leaving.overdue(process) => {}
    }
    // A process that has a request at the end of a stop drains only now, but was to leave all the time.
    let since = leaving.leaves_since(process).map_or(Duration::ZERO, |since| since.elapsed());
    tracing::warn!(
        pid,
        "App {pid} does not exit: killing it. Its work has gone on for {:.1} s since the process was to leave \
         (--drain-timeout, and --shutdown-timeout at a stop)",
        since.as_secs_f64()
    );
    if has_loader {
        // The loaders write what the process does on its log.
        info.leader.signal(Signal::QUIT);
        if tokio::time::timeout(BACKTRACE, exit.done()).await.is_ok() {
            return true;
        }
    }
    info.leader.signal_group(Signal::TERM);
    if tokio::time::timeout(LAST, exit.done()).await.is_err() {
        info.leader.signal_group(Signal::KILL);
        exit.done().await;
    }
    true
}

/// Gives the other processes of the group time to leave until the deadline, after the first one has ended.
///
/// A signal ends a shell at once. The server that it has started may need longer.
async fn await_group(info: &AppInfo) {
    let (group, process) = (info.pid, info.endpoint.identifier);
    let last = Instant::now() + LAST;
    let mut pause = Duration::from_millis(5);
    loop {
        let look = tokio::task::spawn_blocking(move || listening::members(group)).await;
        let deadline = info.connections.leaving.deadline(process).unwrap_or(last).max(last);
        if look.is_ok_and(|members| members.is_ok_and(|members| members.is_empty()))
            || Instant::now() > deadline
        {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Describes the exit status in words.
pub(crate) fn described(status: io::Result<ExitStatus>) -> String {
    match status {
        Ok(status) => status.to_string(),
        Err(e) => format!("exit status unknown: {e}"),
    }
}
