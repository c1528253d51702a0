//! The groups of processes: each application process is a child of the server, and leads a group.
//!
//! The system may give the number of a process to another program as soon as its parent has reaped it. A signal to
//! the number would then reach that program. So a [`Leader`] has one lock for signals and for the reap, and a
//! process that was reaped gets no signal. The number of a group is the number of its leader: it stays taken as long as
//! the leader is not reaped.
//!
//! A process may move to another group of its session, and leave a helper in its own. So a signal to the group is not enough.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
    waitid, waitpid,
};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A child of the server, and the group that it leads.
#[derive(Debug)]
pub struct Leader {
    pid: Pid,
    /// Locked during each signal, and during the reap.
    is_reaped: Mutex<bool>,
}

impl Leader {
    /// Returns the leader with this pid: a child of this process that only [`reap`](Self::reap) reaps.
    pub(crate) fn new(pid: u32) -> io::Result<Leader> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("no such pid"))?;
        Ok(Leader { pid, is_reaped: Mutex::new(false) })
    }

    /// Returns the leader of a child that the caller has started, and does not reap as long as this value exists.
    ///
    /// [`AppSpawner`](crate::AppSpawner) has its own. Tests of a server play processes this way.
    ///
    /// # Panics
    /// The system has given the child a number that is no pid.
    pub fn of_child(child: &Child) -> Leader {
        Leader::new(child.id()).expect("a child has a pid")
    }

    /// Returns the number of the process and of its group.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    fn is_reaped(&self) -> MutexGuard<'_, bool> {
        // Code under this lock does not panic.
        self.is_reaped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a signal to the process, unless it has been reaped.
    pub fn signal(&self, signal: Signal) {
        let is_reaped = self.is_reaped();
        if !*is_reaped {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Sends a signal to the process and to its group, unless it has been reaped.
    pub fn signal_group(&self, signal: Signal) {
        let is_reaped = self.is_reaped();
        if *is_reaped {
            return;
        }
        let _ = kill_process_group(self.pid, signal);
        if self.is_missed_by_group(signal) {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Returns whether a signal to the group may not have reached the process.
    ///
    /// A process that has just been forked leads no group yet, and one of another session may have moved to another group.
    fn is_missed_by_group(&self, signal: Signal) -> bool {
        // In its own group it has the signal: to some programs, a second SIGTERM says that they must end at once.
        signal == Signal::KILL || getpgid(Some(self.pid)) != Ok(self.pid)
    }

    /// Returns whether the process has ended. It stays unreaped.
    pub(crate) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), look), Ok(None))
    }

    /// Waits until the process has ended. It stays unreaped. The function blocks.
    pub(crate) fn await_end(&self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while waitid(WaitId::Pid(self.pid), look).is_err_and(|e| e == rustix::io::Errno::INTR) {}
    }

    /// Kills the rest of the group of a process that has ended, and reaps the process.
    pub(crate) fn reap(&self) -> io::Result<ExitStatus> {
        let mut is_reaped = self.is_reaped();
        let _ = kill_process_group(self.pid, Signal::KILL);
        let status = loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Ok(Some((_, status))) => break Ok(ExitStatus::from_raw(status.as_raw())),
                Err(e) => break Err(e.into()),
            }
        };
        *is_reaped = true;
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ended::tests::eventually;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn sleeper(leads_group: bool) -> Leader {
        let mut command = Command::new("sleep");
        if leads_group {
            command.process_group(0);
        }
        Leader::of_child(&command.arg("600").spawn().unwrap())
    }

    #[test]
    fn a_process_gets_signals_until_it_is_reaped() {
        let leader = sleeper(true);
        leader.signal(Signal::TERM);
        leader.await_end();
        assert!(leader.has_ended());
        leader.signal(Signal::TERM);
        assert_eq!(leader.reap().unwrap().signal(), Some(Signal::TERM.as_raw()));
        leader.signal(Signal::KILL);
        leader.signal_group(Signal::KILL);
        assert!(leader.reap().is_err());
    }

    /// The lock is the guarantee: while a signal is on its way, the number cannot become free.
    #[test]
    fn no_process_is_reaped_while_it_is_signalled() {
        let leader = sleeper(true);
        leader.signal_group(Signal::KILL);
        leader.await_end();
        let signalling = leader.is_reaped();
        std::thread::scope(|scope| {
            let reaping = scope.spawn(|| leader.reap().unwrap());
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            assert!(!reaping.is_finished());
            drop(signalling);
            assert_eq!(reaping.join().unwrap().signal(), Some(Signal::KILL.as_raw()));
        });
    }

    /// The process writes a letter for each SIGTERM. A helper keeps its group, also after the process has moved to another one.
    #[test]
    fn a_process_in_another_group_gets_each_signal_and_one_in_its_own_gets_it_once() {
        let mut other = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        for other_group in [None, Some(other.id())] {
            let moves = other_group.map_or("pass".into(), |to| format!("os.setpgid(0, {to})"));
            let code = format!(
                "import os, signal, time\n\
                 if os.fork() == 0:\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    os.close(1)\n    time.sleep(600)\n\
                 signal.signal(signal.SIGTERM, lambda *_: os.write(1, b't'))\n\
                 {moves}\n\
                 os.write(1, b'r')\n\
                 while True: time.sleep(600)\n"
            );
            let mut command = Command::new("python3");
            command.args(["-c", &code]).process_group(0).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let leader = Leader::of_child(&child);
            let output = child.stdout.take().unwrap();
            let (sender, letters) = std::sync::mpsc::channel();
            std::thread::spawn(move || {
                io::BufReader::new(output)
                    .bytes()
                    .map_while(Result::ok)
                    .try_for_each(|letter| sender.send(letter))
            });
            let letter = |expected| {
                assert_eq!(letters.recv_timeout(Duration::from_secs(30)), Ok(expected));
            };
            letter(b'r');
            // Two signals in a row may come as one, so the letters would not show each second signal.
            assert_eq!(leader.is_missed_by_group(Signal::TERM), other_group.is_some());
            assert!(leader.is_missed_by_group(Signal::KILL));
            for _ in 0..3 {
                leader.signal_group(Signal::TERM);
                letter(b't');
            }
            leader.signal_group(Signal::KILL);
            eventually(|| leader.has_ended());
            assert_eq!(leader.reap().unwrap().signal(), Some(Signal::KILL.as_raw()));
            assert_eq!(letters.iter().next(), None, "SIGTERM came twice");
            assert!(child.wait().is_err(), "it has been reaped");
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_process_that_leads_no_group_yet_is_signalled_alone() {
        let leader = sleeper(false);
        leader.signal_group(Signal::KILL);
        leader.await_end();
        assert_eq!(leader.reap().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
