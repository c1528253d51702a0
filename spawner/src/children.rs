//! All living application processes, in the pool or not.
//!
//! A server that must end at once kills them. A server that shuts down gracefully waits for the last. If
//! the server is killed, its [`reaper`](crate::reaper) does the rest.

use crate::leftovers::Session;
use crate::process_group::Leader;
use crate::reaper::Reaper;
use procfs::FromRead;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
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
    groups: HashMap<u32, Arc<Leader>>,
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

    /// Starts a process, which becomes the leader of a group. Its pipes are those of the second value.
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<(AppChild, Child)> {
        let birth = self.births.lock();
        let child = command.spawn()?;
        let leader = Arc::new(Leader::new(child.id())?);
        self.add(&leader);
        drop(birth);
        self.reaper.begun(child.id());
        Ok((AppChild(leader), child))
    }

    fn add(&self, leader: &Arc<Leader>) {
        let mut sets = self.sets();
        sets.groups.insert(leader.pid(), Arc::clone(leader));
        sets.unreaped.insert(leader.pid());
    }

    /// Waits until a process that was started has begun its session, and notes it. That is its first step.
    pub(crate) fn await_session(&self, child: &AppChild) {
        const LONGEST: Duration = Duration::from_secs(1);
        let end = Instant::now() + LONGEST;
        while !self.note_session(child) && !child.leader().has_ended() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Notes the session of a process. Returns whether the process leads one.
    pub(crate) fn note_session(&self, child: &AppChild) -> bool {
        // The process is not reaped, so the number is its own.
        let Ok(process) = procfs::process::Process::new(child.id().cast_signed()) else {
            return false;
        };
        let leads = process.stat().is_ok_and(|facts| facts.session == process.pid);
        if leads && let Some(session) = Session::of(&process) {
            self.reaper.is_in(child.id(), session);
        }
        leads
    }

    /// Adds a process that a preloader has forked. It leads a group, and is a child of the server.
    ///
    /// The preloader is code of the application, and may name any process. `uid` is the user of the application.
    ///
    /// # Errors
    /// The process is no new child of the server, or belongs to another user.
    pub(crate) fn adopt(&self, pid: u32, uid: u32) -> io::Result<AppChild> {
        let leader = Arc::new(Leader::new(pid)?);
        let birth = self.births.lock();
        // A pid that is not a child's could be any process of the system.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let raw = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::NotFound)?;
        waitid(WaitId::Pid(raw), look)?;
        // It could also be the reaper, or a process of another application.
        if status_of(raw)?.euid != uid || self.sets().unreaped.contains(&pid) {
            return Err(io::Error::other("it is no new process of the application"));
        }
        self.add(&leader);
        drop(birth);
        self.reaper.begun(pid);
        let child = AppChild(leader);
        self.note_session(&child);
        Ok(child)
    }

    /// Kills the rest of a process's group, waits for its end, and reaps it.
    ///
    /// The rest are helpers of the process. A daemon that outlives it has a session of its own.
    pub(crate) fn reap(&self, child: AppChild) -> io::Result<ExitStatus> {
        let AppChild(leader) = child;
        leader.signal_group(Signal::KILL);
        leader.await_end();
        // The order matters: the system may reuse the pid after the reap.
        self.sets().groups.remove(&leader.pid());
        self.reaper.ended(leader.pid());
        let status = leader.reap();
        self.sets().unreaped.remove(&leader.pid());
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
        for leader in self.sets().groups.values() {
            leader.signal_group(Signal::KILL);
        }
    }

    /// Lets the reaper remove the instance directory.
    pub(crate) fn remove_dir(&self, dir: PathBuf) {
        self.reaper.remove(dir);
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

/// A child of the server that has not been reaped. Only its owner may reap it.
#[derive(Debug)]
pub(crate) struct AppChild(Arc<Leader>);

impl AppChild {
    pub(crate) fn id(&self) -> u32 {
        self.0.pid()
    }

    /// Returns the right to signal the process, which others may have as well.
    pub(crate) fn leader(&self) -> &Arc<Leader> {
        &self.0
    }
}

/// Returns the status of a process. Its name, which the application chooses, need not be UTF-8.
fn status_of(pid: Pid) -> io::Result<procfs::process::Status> {
    let bytes = std::fs::read(format!("/proc/{pid}/status"))?;
    let status = procfs::process::Status::from_read(String::from_utf8_lossy(&bytes).as_bytes());
    status.map_err(io::Error::other)
}

/// The process that started another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Server,
    Other,
}
