//! `cabrank __reaper`: ends application processes after a server that was killed.
//!
//! A killed server runs no code, so another process has to clean up. The server writes each process group
//! that begins or ends to a pipe. When the server ends, for whatever reason, the pipe ends, and the
//! reaper kills the groups that are left and removes the instance directory.
//!
//! A thread of the server starts another reaper if one ends, and reports each new instance directory to it. Both
//! take up to a second.
//!
//! A server that stops lets the reaper remove the directory, and waits for it. The removal may take long, if an application
//! still adds files, or hang with the file system: then no signal ends the thread that removes, and so no process with such a
//! thread can end. The server ends in time, and the reaper goes on.
//!
//! The kernel kills the leaders of the groups by itself (see [`prepare`]), even if the
//! reaper is killed too. The reaper is for the processes that the leaders have started: neither a
//! parent-death signal nor the end of standard input reaches a helper that is busy or hangs.

use crate::instance_dir::Instance;
use crate::leftovers::{self, Session, Sign, Ticks};
use crate::prepare;
use crate::removal::remove_tree;
use rustix::fs::OFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The first argument of the command.
pub(crate) const COMMAND: &str = "__reaper";

/// How often the server looks after the reaper.
const PAUSE: Duration = Duration::from_secs(1);

/// The server's end of the pipe. It stays open until the server ends, because the thread holds it, too.
#[derive(Debug)]
pub(crate) struct Reaper(Arc<Mutex<State>>);

/// The process groups, and their sessions as far as they are known.
type Groups = BTreeMap<u32, Option<Session>>;

/// The knowledge of the reaper, for the next one.
#[derive(Debug)]
struct State {
    /// Signals the reaper, and no other process that gets its pid.
    process: OwnedFd,
    pipe: PipeWriter,
    dir: PathBuf,
    groups: Groups,
    /// The server stops: the directory is to be removed.
    is_removed: bool,
}

impl Reaper {
    /// Starts the reaper of this server, and a thread that looks after it.
    pub(crate) fn start(instance: Instance) -> io::Result<Reaper> {
        let dir = instance.path();
        let (mut child, process, pipe) = launch(&dir)?;
        let state = Arc::new(Mutex::new(State {
            process,
            pipe,
            dir,
            groups: Groups::new(),
            is_removed: false,
        }));
        let reaper = Reaper(Arc::clone(&state));
        let look_after = move || {
            loop {
                thread::sleep(PAUSE);
                reaper.look_after(&mut child, instance.path());
            }
        };
        thread::Builder::new().name("reaper".into()).spawn(look_after)?;
        Ok(Reaper(state))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a new directory, and replaces a reaper that has ended.
    fn look_after(&self, child: &mut Child, dir: PathBuf) {
        // Process 1 may have reaped it as an orphan: an error means that it has ended.
        let ended =
            child.try_wait().map_or_else(|e| Some(e.to_string()), |s| s.map(|s| s.to_string()));
        let mut state = self.state();
        let Some(how) = ended else {
            if state.dir != dir {
                state.note(&Note::Dir(&dir));
                state.dir = dir;
            }
            return;
        };
        drop(state);
        let Ok((another, process, pipe)) = launch(&dir) else { return };
        *child = another;
        state = self.state();
        (state.process, state.pipe, state.dir) = (process, pipe, dir);
        for (&group, &session) in &state.groups {
            state.note(&Note::Begun(group));
            session.inspect(|&session| state.note(&Note::In(group, session)));
        }
        if state.is_removed {
            state.note(&Note::Remove);
        }
        drop(state);
        tracing::warn!("the reaper has ended ({how}); another one takes its place");
    }

    /// Notes that a process group has begun.
    pub(crate) fn begun(&self, group: u32) {
        let mut state = self.state();
        state.groups.insert(group, None);
        state.note(&Note::Begun(group));
    }

    /// Notes the session of a process group.
    pub(crate) fn is_in(&self, group: u32, session: Session) {
        let mut state = self.state();
        state.groups.insert(group, Some(session));
        state.note(&Note::In(group, session));
    }

    /// Notes that a process group has ended.
    pub(crate) fn ended(&self, group: u32) {
        let mut state = self.state();
        state.groups.remove(&group);
        state.note(&Note::Ended(group));
    }

    /// Lets the reaper remove the directory at once. It goes on watching the groups.
    pub(crate) fn remove(&self, dir: PathBuf) {
        let mut state = self.state();
        if state.dir != dir {
            state.note(&Note::Dir(&dir));
            state.dir = dir;
        }
        state.is_removed = true;
        state.note(&Note::Remove);
    }
}

/// Starts a reaper.
fn launch(dir: &Path) -> io::Result<(Child, OwnedFd, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    // A reaper that is stopped must not block the server.
    rustix::fs::fcntl_setfl(&writer, OFlags::NONBLOCK)?;
    let mut command = prepare::own_binary(COMMAND);
    command.arg(dir).current_dir("/");
    command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
    // Signals to the server's group, such as those of a terminal, must not end the reaper.
    let mut child = command.process_group(0).spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed()).ok_or(io::ErrorKind::NotFound)?;
    // At the end of its pipe, the reaper would remove the directory.
    let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| drop(child.kill()))?;
    Ok((child, process, writer))
}

/// One line of the pipe.
#[derive(Debug, PartialEq, Eq)]
enum Note<'a> {
    Begun(u32),
    /// The group is in this session.
    In(u32, Session),
    Ended(u32),
    /// The instance directory from now on.
    Dir(&'a Path),
    /// Remove the directory.
    Remove,
}

impl Note<'_> {
    fn line(&self) -> Vec<u8> {
        match self {
            Note::Begun(group) => format!("+{group}\n").into_bytes(),
            Note::In(group, Session(number)) => format!("@{group} {number}\n").into_bytes(),
            Note::Ended(group) => format!("-{group}\n").into_bytes(),
            // A rest of a line could name another directory.
            Note::Dir(dir) if dir.as_os_str().as_bytes().contains(&b'\n') => Vec::new(),
            Note::Remove => b"!\n".to_vec(),
            Note::Dir(dir) => [b"=", dir.as_os_str().as_bytes(), b"\n"].concat(),
        }
    }

    fn parse(line: &[u8]) -> Option<Note<'_>> {
        let (sign, rest) = line.split_first()?;
        let text = || str::from_utf8(rest).ok();
        let group = || text()?.parse().ok();
        match sign {
            b'+' => Some(Note::Begun(group()?)),
            b'@' => {
                let (group, session) = text()?.split_once(' ')?;
                Some(Note::In(group.parse().ok()?, session.parse().ok()?))
            }
            b'-' => Some(Note::Ended(group()?)),
            b'=' => Some(Note::Dir(Path::new(OsStr::from_bytes(rest)))),
            b'!' => rest.is_empty().then_some(Note::Remove),
            _ => None,
        }
    }
}

impl State {
    /// Tells the reaper, without waiting for it.
    fn note(&self, note: &Note<'_>) {
        // A pipe takes so short a line in one piece. Another error than a full pipe means that the reaper has ended.
        let mut pipe = &self.pipe;
        let written = pipe.write(&note.line());
        if written.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
            // This reaper has been stopped for long. It would miss an end, and kill a later group of the same pid. The next
            // one gets the whole state.
            let _ = pidfd_send_signal(&self.process, Signal::KILL);
        }
    }
}

/// Runs the reaper until the end of the program. Returns whether it had a directory to watch.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> bool {
    let Some(mut dir) = arguments.next().map(PathBuf::from) else { return false };
    let _ = prepare::close_descriptors();
    let _ignored = ignored_signals();
    let mut removals = Vec::new();
    let left = outlast(io::stdin().lock(), &mut dir, |dir| {
        // A thread of its own: the file system may hang, and the groups are to end nevertheless.
        let dir = dir.to_owned();
        removals.extend(thread::Builder::new().spawn(move || remove(&dir)));
    });
    if let Some(end) = Ticks::now() {
        for (group, session) in left {
            leftovers::kill(group, session.map_or(Sign::Before(end), Sign::In));
        }
    }
    for removal in removals {
        let _ = removal.join();
    }
    remove(&dir);
    true
}

/// Ignores the signals that ask a process to end, until the result is dropped.
///
/// Service managers signal all processes of a service at once. The server then shuts down gracefully, and
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
///
/// `dir` becomes the last directory that was reported.
fn outlast(pipe: impl BufRead, dir: &mut PathBuf, mut remove: impl FnMut(&Path)) -> Groups {
    let mut groups = Groups::new();
    for line in pipe.split(b'\n').map_while(Result::ok) {
        match Note::parse(&line) {
            Some(Note::Begun(group)) => drop(groups.insert(group, None)),
            Some(Note::In(group, session)) => drop(groups.insert(group, Some(session))),
            Some(Note::Ended(group)) => drop(groups.remove(&group)),
            Some(Note::Dir(new)) => *dir = new.to_owned(),
            Some(Note::Remove) => remove(dir),
            None => {}
        }
    }
    groups
}

/// Removes the instance directory. Processes that are being killed may still add files.
fn remove(dir: &Path) {
    for _ in 0..50 {
        match remove_tree(dir) {
            Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::TimedOut) => {
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
        let mut dir = PathBuf::from("/first");
        let mut removed = Vec::new();
        let lines = &b"+5\n+6\n@5 3\n@6 4\n-5\nnoise\n+\n\n=/second\n!\n!x\n+7\n@7 0\n@7\n"[..];
        let left = outlast(lines, &mut dir, |dir| removed.push(dir.to_owned()));
        let expected = Groups::from([(6, Some(Session(4))), (7, None)]);
        assert_eq!((left, dir), (expected, "/second".into()));
        assert_eq!(removed, [Path::new("/second")]);
    }

    #[test]
    fn a_line_names_one_directory_or_is_left_out() {
        for note in [
            Note::Begun(1),
            Note::In(1, Session(7)),
            Note::Ended(2),
            Note::Dir(Path::new("/a b")),
            Note::Remove,
        ] {
            let line = note.line();
            assert_eq!(Note::parse(line.strip_suffix(b"\n").unwrap()), Some(note));
        }
        assert!(Note::Dir(Path::new("/a\nb")).line().is_empty());
    }
}
