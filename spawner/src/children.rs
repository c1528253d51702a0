//! All living application processes, in the pool or not.
//!
//! A server that must end at once kills them. A server that shuts down gracefully waits for the last. If
//! the server is killed, its [`reaper`](crate::reaper) does the rest.

use crate::process_group::kill_group;
use crate::reaper::Reaper;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, waitid, waitpid};
use std::collections::HashSet;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The process groups that have been started and not reaped.
#[derive(Debug)]
pub(crate) struct Children {
    sets: Mutex<Sets>,
    /// Held while a child exists that is not in the sets.
    births: Mutex<()>,
    changed: Notify,
    reaper: Reaper,
}

#[derive(Debug, Default)]
struct Sets {
    /// The groups that have not ended.
    groups: HashSet<u32>,
    /// The leaders that have not been reaped.
    unreaped: HashSet<u32>,
}

impl Children {
    pub(crate) fn new(reaper: Reaper) -> Self {
        Children {
            sets: Mutex::default(),
            births: Mutex::default(),
            changed: Notify::new(),
            reaper,
        }
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid set.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process as the leader of a new group.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<Child> {
        let birth = self.births.lock();
        let child = command.process_group(0).spawn()?;
        let mut sets = self.sets();
        sets.groups.insert(child.id());
        sets.unreaped.insert(child.id());
        drop(sets);
        drop(birth);
        self.reaper.begun(child.id());
        Ok(child)
    }

    /// Adds a process that a preloader has forked. It leads a group, and is a child of the server.
    ///
    /// # Errors
    /// The process is not a child of the server.
    pub(crate) fn adopt(&self, pid: u32) -> io::Result<AppChild> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or_else(|| io::Error::other("no such pid"))?;
        let birth = self.births.lock();
        // A pid that is not a child's could be any process of the system.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(raw), look)?;
        let mut sets = self.sets();
        sets.groups.insert(pid);
        sets.unreaped.insert(pid);
        drop(sets);
        drop(birth);
        self.reaper.begun(pid);
        Ok(AppChild::Adopted(raw))
    }

    /// Kills the rest of a process's group, waits for its end, and reaps it.
    ///
    /// The rest are helpers of the process. A daemon that outlives it has a session of its own.
    pub(crate) fn reap(&self, child: &mut AppChild) -> io::Result<ExitStatus> {
        // The order matters: the system does not reuse the pid before `wait`.
        kill_group(child.id(), Signal::KILL);
        self.sets().groups.remove(&child.id());
        self.reaper.ended(child.id());
        let status = child.wait();
        self.sets().unreaped.remove(&child.id());
        self.changed.notify_waiters();
        status
    }

    /// Runs `reap` on a process that has ended, unless it is a child that [`reap`](Self::reap) waits for.
    pub(crate) fn unless_own(&self, pid: u32, reap: impl FnOnce()) -> Owner {
        let _no_birth = self.births.lock();
        if self.sets().unreaped.contains(&pid) {
            return Owner::Server;
        }
        reap();
        Owner::Other
    }

    /// Kills all process groups.
    pub(crate) fn kill_all(&self) {
        for &pid in &self.sets().groups {
            kill_group(pid, Signal::KILL);
        }
    }

    /// Waits until every process is reaped.
    pub(crate) async fn all_gone(&self) {
        loop {
            let changed = self.changed.notified();
            if self.sets().unreaped.is_empty() {
                return;
            }
            changed.await;
        }
    }
}

/// A child of the server that has not been reaped.
#[derive(Debug)]
pub(crate) enum AppChild {
    /// The server has started it.
    Started(Child),
    /// A preloader has forked it.
    Adopted(Pid),
}

impl AppChild {
    pub(crate) fn id(&self) -> u32 {
        match self {
            AppChild::Started(child) => child.id(),
            AppChild::Adopted(pid) => pid.as_raw_pid().unsigned_abs(),
        }
    }

    fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            AppChild::Started(child) => child.wait(),
            AppChild::Adopted(pid) => loop {
                match waitpid(Some(*pid), WaitOptions::empty()) {
                    Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                    Ok(None) | Err(rustix::io::Errno::INTR) => {}
                    Err(e) => return Err(e.into()),
                }
            },
        }
    }
}

/// The process that started another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Other,
}
