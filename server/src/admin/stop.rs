//! `cabrank stop`, and the wait for the end of the server.

use crate::admin::Request;
use crate::admin::choice::name;
use crate::admin::client::{ask, expect_done, find, print};
use crate::configuration::cli::StopArgs;
use crate::configuration::values::Seconds;
use crate::failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Shuts a server down. With `--wait`, returns when it has ended.
pub(crate) fn stop(args: &StopArgs) -> Result<(), Failure> {
    let server = find(&args.which)?;
    // Before the server can end, so that its pid is its own.
    let process = args.wait.is_some().then(|| open(server.pid));
    expect_done(ask(&server, &Request::Stop)?)?;
    let (Some(process), Some(limit)) = (process, &args.wait) else { return Ok(()) };
    let cannot = |e| Failure::other(format!("cannot wait for the server {}: {e}.", name(&server)));
    if has_ended(&process.map_err(cannot)?, *limit).map_err(cannot)? {
        return print("The server has ended.\n");
    }
    let seconds = limit.map_or(0.0, |limit| limit.0.as_secs_f64());
    Err(Failure::other(format!(
        "the server {} has not ended after {seconds} s. It finishes requests, for --shutdown-timeout at most.",
        name(&server)
    )))
}

fn open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty())
}

/// Waits for the end of the process, at most for `limit`. Returns whether it has ended.
fn has_ended(process: &OwnedFd, limit: Option<Seconds>) -> Result<bool, Errno> {
    let deadline = limit.map(|limit| Instant::now() + limit.0);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left: Duration| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(process, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled? > 0),
        }
    }
}
