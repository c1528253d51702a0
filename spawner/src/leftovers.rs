//! Kills the process groups that a dead server has left.
//!
//! The server no longer guards their numbers: init reaps a leader as soon as it ends, and another program may then get
//! the number. So the reaper looks for a member that shows that the group is the server's. It
//! stops that member first. So the member cannot leave, and the number stays taken until the signal to the group is sent.
//!
//! - The server notes the [`Session`] of each process soon after its start. All members of a group are in one session, and the
//!   system numbers sessions without reuse. So a member of the known session shows the group, whatever its age. The
//!   members may all be younger than the server's end: a helper may leave its work to a child, and end.
//! - Without a known session, a member that is older than the server's end shows the group. The server had not reaped the leader by then, so the
//!   number was taken.
//!
//! A leader may have moved to another group. The same facts show that it is the server's.

use crate::ended::has_ended;
use crate::listening;
use procfs::Current;
use procfs::process::{Process, Stat};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal,
    test_kill_process_group,
};
use std::str::FromStr;

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

/// A session of processes, by a number that no other session has had since the start of the system.
///
/// It is the number of the kernel's scheduling group: `setsid` makes one, and each descendant stays in it until it calls
/// `setsid` itself. Some kernels have no such groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session(pub(crate) u64);

impl Session {
    /// Returns the session of a process.
    pub(crate) fn of(process: &Process) -> Option<Session> {
        process.autogroup().ok()?.strip_prefix("/autogroup-")?.split(' ').next()?.parse().ok()
    }
}

impl FromStr for Session {
    type Err = ();

    fn from_str(text: &str) -> Result<Session, ()> {
        // 0 is the group of all sessions for which the kernel had no memory.
        text.parse().ok().filter(|&number| number != 0).map(Session).ok_or(())
    }
}

/// The fact that shows that a process belongs to a server that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// It is in this session.
    In(Session),
    /// It began before the server's end.
    Before(Ticks),
}

impl Sign {
    fn is_of(self, process: &Process, facts: &Stat) -> bool {
        match self {
            Sign::In(session) => Session::of(process) == Some(session),
            Sign::Before(end) => Ticks(facts.starttime) < end,
        }
    }

    /// Returns whether the process certainly lacks the sign. A process that has just ended may have it or not.
    fn is_missing_in(self, process: &Process, facts: &Stat) -> bool {
        match self {
            Sign::In(session) => Session::of(process).is_some_and(|other| other != session),
            Sign::Before(end) => Ticks(facts.starttime) >= end,
        }
    }
}

/// The number of looks at a group whose members end before the reaper can stop one.
const LOOKS: usize = 50;
/// The number of looks that must find no member in a row. A list of processes may lack one that was forked meanwhile.
const EMPTY_LOOKS: usize = 3;

/// Kills the group with this number, if one of its members has the sign, and its leader in any group.
pub(crate) fn kill(group: u32, sign: Sign) {
    let Some(number) = i32::try_from(group).ok().and_then(Pid::from_raw) else { return };
    let mut empty = 0;
    for _ in 0..LOOKS {
        let members = listening::members(group).unwrap_or_default();
        if members.iter().any(|member| stop(member, group, sign)) {
            let _ = kill_process_group(number, Signal::KILL);
            break;
        }
        let is_foreign =
            |member: &Process| member.stat().is_ok_and(|facts| sign.is_missing_in(member, &facts));
        empty = if members.is_empty() { empty + 1 } else { 0 };
        if empty == EMPTY_LOOKS
            || members.iter().any(is_foreign)
            || test_kill_process_group(number).is_err()
        {
            break;
        }
    }
    let Ok(leader) = Process::new(number.as_raw_pid()) else { return };
    let handle = pidfd_open(number, PidfdFlags::empty());
    // The look comes after the handle, which so belongs to the same process.
    let is_own = leader.stat().is_ok_and(|facts| sign.is_of(&leader, &facts));
    if let Ok(handle) = handle
        && is_own
    {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

/// Stops a process of the group that has the sign. Returns whether it is stopped.
fn stop(process: &Process, group: u32, sign: Sign) -> bool {
    // `Process` has its directory open. So these facts belong to the process of the handle, or are an error.
    let is_own = || {
        process.stat().is_ok_and(|facts| {
            !has_ended(&facts)
                && u32::try_from(facts.pgrp) == Ok(group)
                && sign.is_of(process, &facts)
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
        kill(own.id(), Sign::Before(Ticks(begun(&own).0 + 1)));
        kill(foreign.id(), Sign::Before(begun(&foreign)));
        assert_eq!(own.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(foreign.try_wait().unwrap(), None);
        let state = Process::new(foreign.id().cast_signed()).unwrap().stat().unwrap().state;
        assert_eq!(state, 'S');
        foreign.kill().unwrap();
        foreign.wait().unwrap();
    }

    #[test]
    fn a_group_is_killed_by_its_session_and_by_no_other() {
        let [mut own, mut other] =
            [(); 2].map(|()| Command::new("setsid").args(["sleep", "600"]).spawn().unwrap());
        let process = |child: &Child| Process::new(child.id().cast_signed()).unwrap();
        for child in [&own, &other] {
            eventually(|| process(child).stat().unwrap().session.cast_unsigned() == child.id());
        }
        let session = |child| Session::of(&process(child));
        let sessions = session(&own).zip(session(&other));
        if let Some((sign, foreign)) = sessions {
            kill(own.id(), Sign::In(foreign));
            assert_eq!(process(&own).stat().unwrap().state, 'S');
            kill(own.id(), Sign::In(sign));
            assert_eq!(own.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
            assert_eq!(other.try_wait().unwrap(), None);
        } else {
            println!("skipped: this kernel does not number sessions");
        }
        for child in [&mut own, &mut other] {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_leader_does_not_survive_in_another_group() {
        let mut other = sleeper();
        let code = format!("import os, time\nos.setpgid(0, {})\ntime.sleep(600)", other.id());
        let mut command = Command::new("python3");
        let mut child = command.args(["-c", &code]).process_group(0).spawn().unwrap();
        let facts = || Process::new(child.id().cast_signed()).unwrap().stat().unwrap();
        eventually(|| facts().pgrp.cast_unsigned() == other.id());
        kill(child.id(), Sign::Before(begun(&child)));
        let is_younger_alive = child.try_wait().unwrap().is_none();
        kill(child.id(), Sign::Before(Ticks(begun(&child).0 + 1)));
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
        kill(leader.id(), Sign::Before(Ticks(begun(&child).0 + 1)));
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
