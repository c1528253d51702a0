//! Kills the process groups that a dead server has left.
//!
//! The server no longer guards their numbers: init reaps a leader as soon as it ends, and another program may then get
//! the number. A member that is older than the server's end shows that the group is the server's. The reaper
//! stops that member first. So it cannot leave, and the number stays taken until the signal to the group is sent.
//!
//! A leader may have moved to another group. It is the server's if it is older than the server's end: the server had not
//! reaped it by then, so its number was taken.

use crate::ended::has_ended;
use crate::listening;
use procfs::Current;
use procfs::process::Process;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// The time since the start of the system, in the ticks of `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(u64);

impl Ticks {
    /// Returns the present time. `None`: the system does not tell it.
    pub(crate) fn now() -> Option<Ticks> {
        let uptime = procfs::Uptime::current().ok()?.uptime_duration();
        let ticks = uptime.as_millis() * u128::from(procfs::ticks_per_second()) / 1000;
        ticks.try_into().ok().map(Ticks)
    }
}

/// Kills the group with this number, if one of its members is older than `end`, and its leader in any group.
pub(crate) fn kill(group: u32, end: Ticks) {
    let Some(number) = i32::try_from(group).ok().and_then(Pid::from_raw) else { return };
    let members = listening::members(group).unwrap_or_default();
    if members.iter().any(|member| stop(member, group, end)) {
        let _ = kill_process_group(number, Signal::KILL);
    }
    let Ok(leader) = Process::new(number.as_raw_pid()) else { return };
    let handle = pidfd_open(number, PidfdFlags::empty());
    // The look comes after the handle, which so belongs to the same process.
    let is_own = leader.stat().is_ok_and(|facts| Ticks(facts.starttime) < end);
    if let Ok(handle) = handle
        && is_own
    {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Stops a process of the group that is older than `end`. Returns whether it is stopped.
fn stop(process: &Process, group: u32, end: Ticks) -> bool {
    // `Process` has its directory open. So these facts belong to the process of the handle, or are an error.
    let is_own = || {
        process.stat().is_ok_and(|facts| {
            !has_ended(&facts)
                && u32::try_from(facts.pgrp) == Ok(group)
                && Ticks(facts.starttime) < end
        })
    };
    let handle =
        Pid::from_raw(process.pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(handle) = handle.filter(|_| is_own()) else { return false };
    if pidfd_send_signal(&handle, Signal::STOP).is_err() {
        return false;
    }
    let is_stopped = is_own();
    if !is_stopped {
        let _ = pidfd_send_signal(&handle, Signal::CONT); // it has left the group meanwhile
    }
    is_stopped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended::tests::{eventually, without_main_thread};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Child, Command};

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").process_group(0).spawn().unwrap()
    }

    fn begun(child: &Child) -> Ticks {
        let process = Process::new(child.id().cast_signed()).unwrap();
        Ticks(process.stat().unwrap().starttime)
    }

    #[test]
    fn a_group_that_is_younger_than_the_servers_end_is_left_alone() {
        let (mut own, mut foreign) = (sleeper(), sleeper());
        kill(own.id(), Ticks(begun(&own).0 + 1));
        kill(foreign.id(), begun(&foreign));
        assert_eq!(own.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(foreign.try_wait().unwrap(), None);
        let state = Process::new(foreign.id().cast_signed()).unwrap().stat().unwrap().state;
        assert_eq!(state, 'S');
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn a_leader_does_not_survive_in_another_group() {
        let mut other = sleeper();
        let code = format!("import os, time\nos.setpgid(0, {})\ntime.sleep(600)", other.id());
        let mut command = Command::new("python3");
        let mut child = command.args(["-c", &code]).process_group(0).spawn().unwrap();
        let facts = || Process::new(child.id().cast_signed()).unwrap().stat().unwrap();
        eventually(|| facts().pgrp.cast_unsigned() == other.id());
        kill(child.id(), begun(&child));
        let is_younger_alive = child.try_wait().unwrap().is_none();
        kill(child.id(), Ticks(begun(&child).0 + 1));
        eventually(|| child.try_wait().unwrap().is_some());
        assert!(is_younger_alive && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    /// Its main thread is a zombie, and another thread goes on.
    #[test]
    fn a_process_does_not_survive_by_the_end_of_its_main_thread() {
        let mut leader = sleeper();
        let mut child = without_main_thread(&format!("os.setpgid(0, {})", leader.id()));
        let facts = || Process::new(child.id().cast_signed()).unwrap().stat().unwrap();
        eventually(|| facts().pgrp.cast_unsigned() == leader.id());
        leader.kill().unwrap();
        leader.wait().unwrap();
        kill(leader.id(), Ticks(begun(&child).0 + 1));
        eventually(|| child.try_wait().unwrap().is_some());
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }

    #[test]
    fn the_present_is_later_than_the_start_of_each_process() {
        let mut child = sleeper();
        assert!(begun(&child) <= Ticks::now().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
