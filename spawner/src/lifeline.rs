//! The life of one process from the moment it serves to its end.
//!
//! The lifeline notices the end of its process at once, expected or not, and reaps it. A process that
//! does not follow a request to leave is sent signals.

use crate::children::{AppChild, Children};
use crate::held_socket::HeldSocket;
use crate::instance_number::InstanceNumber;
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
    number: Option<InstanceNumber>,
    mut exit: Exit,
    info: Arc<AppInfo>,
    reports: Arc<Reports>,
    children: Arc<Children>,
) {
    let end = tokio::select! {
        biased;
        // A process that was asked to leave may have ended already.
        () = info.leave.notified() => Some(Farewell::Asked(Instant::now())),
        () = exit.done() => None,
        // The process is to leave, and has requests still.
        () = info.connections.leaving.until(info.endpoint.identifier, |last| last.backtrace) => {
            Some(Farewell::Busy)
        }
    };
    let expected = end.is_some();
    let was_signalled = match end {
        Some(farewell) => end_process(&mut exit, &info, farewell).await,
        None => false,
    };
    // The pool may start the next process at once, which gets the number.
    drop(number);
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
    // Most loaders remove their socket themselves. At a stop it goes with its directory, whose file system may hang.
    if !info.connections.leaving.is_stopping() {
        let removal = move || info.held.as_ref().map(HeldSocket::remove);
        let _ = tokio::task::spawn_blocking(removal).await;
    }
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

/// Why a process is to end.
#[derive(Clone, Copy, Debug)]
enum Farewell {
    /// It was asked to leave then.
    Asked(Instant),
    /// Its time is over, and its requests are not.
    Busy,
}

/// Waits until a process that is to leave ends. Returns whether a signal was necessary.
///
/// Until the last part of its time the process may finish what it does: a task in the background, a thread, a hook.
async fn end_process(exit: &mut Exit, info: &AppInfo, farewell: Farewell) -> bool {
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
        () = leaving.until(process, |last| last.backtrace) => {}
    }
    let why = match farewell {
        Farewell::Asked(at) => {
            format!("It was asked to leave {:.1} s ago", at.elapsed().as_secs_f64())
        }
        Farewell::Busy => {
            let since = leaving.leaves_since(process).map_or(Duration::ZERO, |at| at.elapsed());
            format!(
                "Its requests have gone on for {:.1} s since it was to leave",
                since.as_secs_f64()
            )
        }
    };
    tracing::warn!(
        pid,
        "App {pid} does not exit: killing it. {why} (--drain-timeout, and --shutdown-timeout at a stop)"
    );
    if has_loader {
        // The loaders write what the process does on its log.
        info.leader.signal(Signal::QUIT);
    }
    tokio::select! {
        biased;
        () = exit.done() => return true,
        () = leaving.until(process, |last| last.term) => {}
    }
    info.leader.signal_group(Signal::TERM);
    tokio::select! {
        biased;
        () = exit.done() => return true,
        () = leaving.until(process, |last| last.kill) => {}
    }
    info.leader.signal_group(Signal::KILL);
    exit.done().await;
    true
}

/// Gives the other processes of the group time to leave until the deadline, after the first one has ended.
///
/// A signal ends a shell at once. The server that it has started may need longer.
async fn await_group(info: &AppInfo) {
    let (group, process) = (info.pid, info.endpoint.identifier);
    let mut pause = Duration::from_millis(5);
    loop {
        let look = tokio::task::spawn_blocking(move || listening::members(group)).await;
        let is_over =
            info.connections.leaving.last(process).is_none_or(|last| last.kill <= Instant::now());
        if is_over || look.is_ok_and(|members| members.is_ok_and(|members| members.is_empty())) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::{Connections, IdleEnd};
    use crate::handshake::{Address, Protocol};
    use crate::process_group::Leader;
    use cabrank::application_pool::Identifier;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// The process ignores each signal that it can ignore. tokio's clock moves only while all tasks wait for a time.
    #[tokio::test(start_paused = true)]
    async fn a_process_that_ignores_signals_is_killed_at_the_deadline() {
        for has_loader in [true, false] {
            let mut command = Command::new("sh");
            command.args(["-c", "trap '' TERM QUIT; echo ready; while :; do sleep 1; done"]);
            let mut child = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            let leader = Arc::new(Leader::of_child(&child));
            // The timer of the idle connections would move the paused clock on.
            let elsewhere = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let connections = Connections::new(elsewhere.handle().clone(), 1).unwrap();
            let (identifier, at) = (Identifier::from_u64(1), Address::Unix("/nowhere".into()));
            let endpoint = connections.endpoint(identifier, at, IdleEnd::Server);
            let (ours, _theirs) = tokio::net::UnixStream::pair().unwrap();
            let info = AppInfo {
                control: has_loader.then(|| ours.into_split().1),
                ..AppInfo::new(
                    Arc::clone(&leader),
                    endpoint,
                    Protocol::HttpSession,
                    0,
                    String::new(),
                    connections,
                )
            };
            let (ended, exit) = oneshot::channel();
            let watched = Arc::clone(&leader);
            std::thread::spawn(move || {
                watched.await_end();
                let _ = ended.send(());
            });
            let begun = tokio::time::Instant::now();
            let limit = Duration::from_secs(60);
            // The notes of drains have the true time.
            info.connections.set_drain_time(60 * limit);
            info.connections.stop_by(begun.into_std() + limit);
            let farewell = Farewell::Asked(begun.into_std());
            assert!(end_process(&mut Exit(exit), &info, farewell).await);
            let took = begun.elapsed();
            assert!(limit <= took && took < limit + Duration::from_secs(1), "{took:?}");
            assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
            elsewhere.shutdown_background();
        }
    }
}
