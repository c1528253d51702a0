//! `cabrank __watchdog`: ends application processes after an agent that was killed.
//!
//! A killed agent runs no code, so another process has to clean up. The agent writes each process group
//! that begins or ends to a pipe. When the agent ends, for whatever reason, the pipe ends, and the
//! watchdog kills the groups that are left and removes the instance directory.
//!
//! The kernel kills the leaders of the groups by itself (see [`prepare`]), even if the
//! watchdog is killed too. The watchdog is for the processes that the leaders have started: neither a
//! parent-death signal nor the end of standard input reaches a helper that is busy or hangs.

use super::children::kill_group;
use super::prepare;
use rustix::fs::OFlags;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of the command.
pub(crate) const COMMAND: &str = "__watchdog";

/// The agent's end of the pipe.
#[derive(Debug)]
pub(crate) struct Watchdog(&'static PipeWriter);

impl Watchdog {
    /// Starts the watchdog of this agent.
    pub(crate) fn start(instance_dir: &Path) -> io::Result<Watchdog> {
        let (reader, writer) = io::pipe()?;
        // A watchdog that is stopped must not block the agent.
        rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        let mut command = prepare::own_binary(COMMAND);
        command.arg(instance_dir).current_dir("/");
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        // Signals to the agent's group, such as those of a terminal, must not end the watchdog.
        command.process_group(0).spawn()?;
        // The pipe ends with the process: the instance directory is in use until then.
        Ok(Watchdog(Box::leak(Box::new(writer))))
    }

    /// Notes that a process group has begun.
    pub(crate) fn begun(&self, group: u32) {
        self.note('+', group);
    }

    /// Notes that a process group has ended.
    pub(crate) fn ended(&self, group: u32) {
        self.note('-', group);
    }

    fn note(&self, sign: char, group: u32) {
        // A pipe takes so short a line in one piece. An error means that the watchdog was killed.
        let mut pipe = self.0;
        let _ = pipe.write(format!("{sign}{group}\n").as_bytes());
    }
}

/// Runs the watchdog until the end of the agent.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(dir) = arguments.next().map(PathBuf::from) else { return ExitCode::FAILURE };
    let _ = prepare::close_descriptors();
    let _ignored = ignored_signals();
    let left = outlast(io::stdin().lock());
    for group in left {
        kill_group(group, Signal::KILL);
    }
    remove(&dir);
    ExitCode::SUCCESS
}

/// Ignores the signals that ask a process to end, until the result is dropped.
///
/// Service managers signal all processes of a service at once. The agent then shuts down gracefully, and
/// may still be killed.
fn ignored_signals() -> io::Result<impl Drop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let entered = runtime.enter();
    for kind in
        [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()]
    {
        drop(signal(kind)?); // the handler stays
    }
    drop(entered);
    Ok(runtime)
}

/// Reads to the end of the pipe. Returns the groups that have not ended.
fn outlast(pipe: impl BufRead) -> BTreeSet<u32> {
    let mut groups = BTreeSet::new();
    for line in pipe.lines().map_while(Result::ok) {
        match line.split_at_checked(1).map(|(sign, group)| (sign, group.parse())) {
            Some(("+", Ok(group))) => drop(groups.insert(group)),
            Some(("-", Ok(group))) => drop(groups.remove(&group)),
            _ => {}
        }
    }
    groups
}

/// Removes the instance directory. Processes that are being killed may still add files.
fn remove(dir: &Path) {
    for _ in 0..50 {
        match std::fs::remove_dir_all(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(20));
            }
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_have_ended_are_left_alone() {
        assert_eq!(outlast(&b"+5\n+6\n-5\nnoise\n+\n+7\n"[..]), BTreeSet::from([6, 7]));
    }
}
