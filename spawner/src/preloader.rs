//! The preloader of an application: a process that has loaded it once, and forks a process for each spawn.
//!
//! `docs/preloaders.md` has the protocol. At most one preloader lives at a time. A spawn takes it out of its
//! place, and puts it back after the fork, so that no lock is held meanwhile.

use crate::children::{AppChild, Children};
use crate::held_socket::HeldSocket;
use crate::lifeline::{self, Exit};
use crate::process_group::Leader;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg};
use rustix::process::Signal;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::unix::OwnedWriteHalf;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// The longest wait for the answer to a command.
const FORK_TIME: Duration = Duration::from_secs(10);
/// The time for a preloader to leave before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// The place of the preloader.
#[derive(Debug)]
pub(crate) struct Preloading {
    place: Mutex<Place>,
    /// How long an unused preloader lives; `None`: for ever.
    idle_time: Option<Duration>,
    runtime: Handle,
}

#[derive(Debug, Default)]
struct Place {
    preloader: Option<Preloader>,
    /// The version of the code: counts restarts.
    version: u64,
    /// The number of times that a preloader was put here.
    uses: u64,
    mode: Mode,
}

/// Whether preloaders are used.
///
/// The pool asks for a reload before each spawn of a restart until a process is ready. So a version that does not boot
/// at all would be tried twice for each failed spawn: by a preloader, and directly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    On,
    /// A preloader could not load the application. Processes start directly.
    Off {
        /// A direct start has failed since then, too. The next one that succeeds turns preloaders on again.
        is_broken: bool,
    },
    /// The server ends.
    Closed,
}

/// A preloader that is free for a spawn. Dropping it asks the process to leave.
#[derive(Debug)]
pub(crate) struct Preloader {
    leader: Arc<Leader>,
    version: u64,
    socket: HeldSocket,
    control: OwnedWriteHalf,
    leave: Arc<Notify>,
    has_ended: Arc<AtomicBool>,
}

impl Preloading {
    pub(crate) fn new(idle_time: Option<Duration>, runtime: Handle) -> Arc<Self> {
        Arc::new(Preloading { place: Mutex::default(), idle_time, runtime })
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        // Code under this lock does not panic.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the preloader, if one lives, and returns the version of the code. `None`: preloading is off.
    pub(crate) fn take(&self) -> Option<(Option<Preloader>, u64)> {
        let mut place = self.place();
        if place.mode != Mode::On {
            return None;
        }
        let (taken, version) = (place.preloader.take(), place.version);
        drop(place);
        let alive = taken.filter(|preloader| !preloader.has_ended.load(Ordering::Acquire));
        Some((alive, version))
    }

    /// Puts a preloader back, unless its code is outdated.
    pub(crate) fn put_back(self: &Arc<Self>, preloader: Preloader) {
        let mut place = self.place();
        if place.mode != Mode::On || place.version != preloader.version {
            drop(place);
            return;
        }
        place.uses += 1;
        let uses = place.uses;
        let former = place.preloader.replace(preloader);
        drop(place);
        drop(former);
        let Some(idle_time) = self.idle_time else { return };
        let this = Arc::downgrade(self);
        self.runtime.spawn(async move {
            tokio::time::sleep(idle_time).await;
            if let Some(this) = this.upgrade() {
                this.end_unless_used(uses);
            }
        });
    }

    fn end_unless_used(&self, uses: u64) {
        let mut place = self.place();
        let idle = if place.uses == uses { place.preloader.take() } else { None };
        drop(place);
        if let Some(idle) = &idle {
            tracing::info!(pid = idle.pid(), "preloader {} was idle, and leaves", idle.pid());
        }
    }

    /// Notes that this version of the code cannot be preloaded.
    pub(crate) fn failed(&self, version: u64) {
        let mut place = self.place();
        if place.mode == Mode::On && place.version == version {
            place.mode = Mode::Off { is_broken: false };
        }
    }

    /// Notes whether a process that was started without a preloader has become ready.
    pub(crate) fn started_directly(&self, is_ready: bool) {
        let mut place = self.place();
        place.mode = match (place.mode, is_ready) {
            (Mode::Off { .. }, false) => Mode::Off { is_broken: true },
            (Mode::Off { is_broken: true }, true) => Mode::On,
            (mode, _) => mode,
        };
    }

    /// Ends the preloader, because its code is outdated, and lets another one begin.
    pub(crate) fn reload(&self) {
        let mut place = self.place();
        place.version += 1;
        if place.mode == (Mode::Off { is_broken: false }) {
            place.mode = Mode::On;
        }
        let outdated = place.preloader.take();
        drop(place);
        drop(outdated);
    }

    /// Ends the preloader, and lets no other one begin.
    pub(crate) fn close(&self) {
        let mut place = self.place();
        place.version += 1;
        place.mode = Mode::Closed;
        let last = place.preloader.take();
        drop(place);
        drop(last);
    }
}

impl Preloader {
    /// Turns a ready process into a preloader, and watches it to its end.
    pub(crate) fn new(
        child: AppChild,
        version: u64,
        socket: HeldSocket,
        control: OwnedWriteHalf,
        children: Arc<Children>,
        runtime: &Handle,
    ) -> io::Result<Self> {
        let leader = Arc::clone(child.leader());
        let exit = Exit::of(&child)?;
        let leave = Arc::new(Notify::new());
        let has_ended = Arc::new(AtomicBool::new(false));
        runtime.spawn(hold(child, exit, Arc::clone(&leave), Arc::clone(&has_ended), children));
        Ok(Preloader { leader, version, socket, control, leave, has_ended })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.leader.pid()
    }

    /// Opens a connection for a command.
    pub(crate) fn connect(&self) -> io::Result<UnixStream> {
        let connection = self.socket.connect(FORK_TIME)?;
        connection.set_read_timeout(Some(FORK_TIME))?;
        connection.set_write_timeout(Some(FORK_TIME))?;
        Ok(connection)
    }

    /// Kills a preloader that does not answer.
    pub(crate) fn kill(self) {
        self.leader.signal_group(Signal::KILL);
    }
}

impl Drop for Preloader {
    fn drop(&mut self) {
        // First: the process may end as soon as it is asked.
        self.leave.notify_one();
        let _ = self.control.try_write(b"\n");
        let _ = rustix::net::shutdown(self.control.as_ref(), Shutdown::Write);
    }
}

/// Sends the command for a fork. Returns the pid of the new process, whose channel the connection is now.
///
/// The first byte carries `stderr`. A preloader that does not receive descriptors keeps its own.
pub(crate) fn fork(connection: &UnixStream, stderr: OwnedFd) -> Result<u32, String> {
    let mut connection = connection;
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("it did not answer within {} s", FORK_TIME.as_secs())
        }
        _ => e.to_string(),
    };
    let descriptors = [stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let command = b"spawn\n\n";
    let sent = sendmsg(connection, &[IoSlice::new(command)], &mut control, SendFlags::NOSIGNAL)
        .map_err(|e| failed(e.into()))?;
    connection.write_all(&command[sent..]).map_err(failed)?;
    drop(stderr);
    // Byte by byte: the bytes behind the pid belong to the handshake.
    let mut line = || -> Result<String, String> {
        let mut line = Vec::new();
        while line.len() < 256 {
            let mut byte = [0];
            match connection.read(&mut byte).map_err(failed)? {
                0 => return Err("it closed the connection".into()),
                _ if byte[0] == b'\n' => break,
                _ => line.push(byte[0]),
            }
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    };
    let answer = line()?;
    let text = line()?;
    if answer != "OK" {
        return Err(format!("{answer}: {text}"));
    }
    text.parse().map_err(|_| format!("it sent the pid {text:?}"))
}

/// Watches a preloader to its end, and reaps it.
async fn hold(
    child: AppChild,
    mut exit: Exit,
    leave: Arc<Notify>,
    has_ended: Arc<AtomicBool>,
    children: Arc<Children>,
) {
    let pid = child.id();
    let expected = tokio::select! {
        biased;
        // A process that was asked to leave may have ended already.
        () = leave.notified() => true,
        () = exit.done() => false,
    };
    if expected && tokio::time::timeout(GRACE, exit.done()).await.is_err() {
        child.leader().signal_group(Signal::KILL);
        exit.done().await;
    }
    has_ended.store(true, Ordering::Release);
    let status = lifeline::described(children.reap(child));
    if expected {
        tracing::debug!(pid, "preloader {pid} has exited: {status}");
    } else {
        tracing::warn!(pid, "preloader {pid} ended unexpectedly: {status}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preloading() -> (tokio::runtime::Runtime, Arc<Preloading>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let preloading = Preloading::new(None, runtime.handle().clone());
        (runtime, preloading)
    }

    /// Returns the version that a spawn would preload, if it would.
    fn version(preloading: &Preloading) -> Option<u64> {
        preloading.take().map(|(_, version)| version)
    }

    #[test]
    fn an_application_that_cannot_be_preloaded_starts_directly_until_the_next_restart() {
        let (_runtime, preloading) = preloading();
        preloading.failed(0);
        preloading.started_directly(true);
        assert_eq!(version(&preloading), None);
        preloading.reload();
        assert_eq!(version(&preloading), Some(1));
    }

    #[test]
    fn a_version_that_does_not_boot_is_preloaded_again_after_it_has_booted_directly() {
        let (_runtime, preloading) = preloading();
        preloading.failed(0);
        for _ in 0..3 {
            preloading.started_directly(false);
            preloading.reload(); // the pool asks before each spawn of a restart
            assert_eq!(version(&preloading), None);
        }
        preloading.started_directly(true);
        assert_eq!(version(&preloading), Some(3));
    }

    #[test]
    fn a_failure_of_outdated_code_says_nothing_about_the_new_code() {
        let (_runtime, preloading) = preloading();
        preloading.reload();
        preloading.failed(0);
        assert_eq!(version(&preloading), Some(1));
    }

    #[test]
    fn after_the_end_no_preloader_begins() {
        let (_runtime, preloading) = preloading();
        preloading.close();
        preloading.reload();
        preloading.started_directly(true);
        assert_eq!(version(&preloading), None);
    }
}
