//! The end of a request that takes longer than `--max-request-time`.
//!
//! The pool takes the process out, so that it gets no more requests. Then the process writes a backtrace on its
//! log, which is the loaders' answer to SIGQUIT, and ends. A process with other requests may finish them first: it has the time of
//! a drain. SIGQUIT ends most programs without a loader at once, so it reaches none that has other requests.

use crate::exchange::attempt::Attempt;
use crate::exchange::served::Served;
use rustix::process::Signal;
use std::time::Duration;

/// The time for the backtrace.
const BACKTRACE: Duration = Duration::from_millis(500);

/// Takes the process out of the pool, asks it for a backtrace, and then ends it.
pub(crate) fn end(application: &Served, attempt: Attempt) {
    let Attempt { hold, process, lane, .. } = attempt;
    let Some(hold) = hold else { return };
    let pid = process.pid;
    // The session stays open during the backtrace: the pool ends the process when it has no session.
    application.processes.has_failed(process.endpoint.identifier);
    if process.writes_backtraces || !application.processes.is_shared(process.endpoint.identifier) {
        tracing::warn!(
            pid,
            "App {pid}: a request took longer than --max-request-time: asking for a backtrace, and ending the process"
        );
        process.leader.signal(Signal::QUIT);
    } else {
        tracing::warn!(
            pid,
            "App {pid}: a request took longer than --max-request-time: ending the process when it has finished its other requests"
        );
    }
    tokio::spawn(async move {
        tokio::time::sleep(BACKTRACE).await;
        drop(lane);
        drop(hold);
        if process.concurrency == 1 {
            process.leader.signal_group(Signal::KILL);
        }
    });
}
