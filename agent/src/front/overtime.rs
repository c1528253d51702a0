//! The end of a request that takes longer than `--max-request-time`.
//!
//! The process first writes on its log what it is doing: loaders answer SIGQUIT with a backtrace. Then the
//! pool takes it out, and it ends. A process with other requests may finish them first.

use super::work::Work;
use crate::app::Session;
use crate::app::children::kill_group;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// The time for the backtrace.
const BACKTRACE: Duration = Duration::from_millis(500);

/// Asks the process for a backtrace, and then ends it.
pub(crate) fn end(work: Work) {
    let Work { session, process, link, .. } = work;
    let Some(session) = session else { return };
    let pid = process.pid;
    tracing::warn!(
        pid,
        "App {pid}: a request took longer than --max-request-time: asking for a backtrace, and ending the process"
    );
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::QUIT);
    }
    tokio::spawn(async move {
        tokio::time::sleep(BACKTRACE).await;
        drop(link);
        // The pid is not reused: the lifeline reaps the process after its session has ended.
        Session::fail(session);
        if process.concurrency == 1 {
            kill_group(pid, Signal::KILL);
        }
    });
}
