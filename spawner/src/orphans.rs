//! Reaps orphans: processes that lost their parent and became children of the server.
//!
//! The kernel gives orphans to process 1, which in a container is the server, or to a *subreaper*. Nobody
//! else can reap them, and each would occupy a pid for ever.

use crate::children::{Children, Owner};
use crate::ended::has_ended;
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::Pid;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The pause while no child exists.
const PAUSE: Duration = Duration::from_millis(100);
/// The pause while the server has not reaped a child of its own. A look at all processes takes long.
const LONG_PAUSE: Duration = Duration::from_millis(500);

/// Starts a thread that reaps orphans, if this process gets any.
pub(crate) fn reap(children: Arc<Children>) -> io::Result<()> {
    if !gets_orphans() {
        return Ok(());
    }
    thread::Builder::new().name("orphans".into()).spawn(move || {
        loop {
            match next(&children) {
                Ok(Owner::Other) => {}
                Ok(Owner::Server) => {
                    reap_others(&children);
                    thread::sleep(LONG_PAUSE);
                }
                Err(_) => thread::sleep(PAUSE),
            }
        }
    })?;
    Ok(())
}

pub(crate) fn gets_orphans() -> bool {
    std::process::id() == 1
        || rustix::process::child_subreaper().is_ok_and(|is_set| is_set.is_some())
}

/// Waits until a child has ended, and reaps it if it is an orphan.
fn next(children: &Children) -> Result<Owner, Errno> {
    // NOWAIT leaves the child unreaped: another thread may wait for it.
    let ended = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    let Some(pid) = ended.pid() else { return Ok(Owner::Server) };
    Ok(reap_unless_own(children, pid))
}

fn reap_unless_own(children: &Children, pid: Pid) -> Owner {
    children.unless_own(pid.as_raw().unsigned_abs(), || {
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    })
}

/// Reaps all orphans that have ended.
///
/// The kernel names one child that has ended, again and again. That may be the leader of a group whose last members are
/// still at work, and orphans would pile up behind it.
fn reap_others(children: &Children) {
    let own = std::process::id().cast_signed();
    let Ok(all) = procfs::process::all_processes() else { return };
    for stat in all.flatten().filter_map(|process| process.stat().ok()) {
        if stat.ppid == own && has_ended(&stat) {
            reap_unless_own(children, Pid::from_raw(stat.pid));
        }
    }
}
