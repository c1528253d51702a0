//! The groups of processes: each application process is a child of the server, and leads a group.
//!
//! The system may give the number of a process to another program as soon as its parent has reaped it. A signal to
//! the number would then reach that program. So a [`Leader`] has one lock for signals and for the reap, and a
//! process that was reaped gets no signal. The number of a group is the number of its leader: it stays taken as long as
//! the leader is not reaped.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
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
        // A process that has just been forked leads no group yet.
        if !*is_reaped && kill_process_group(self.pid, signal).is_err() {
            let _ = kill_process(self.pid, signal);
        }
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
    use std::os::unix::process::CommandExt;
    use std::process::Command;

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

    #[test]
    fn a_process_that_leads_no_group_yet_is_signalled_alone() {
        let leader = sleeper(false);
        leader.signal_group(Signal::KILL);
        leader.await_end();
        assert_eq!(leader.reap().unwrap().signal(), Some(Signal::KILL.as_raw()));
    }
}
