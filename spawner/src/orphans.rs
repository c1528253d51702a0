//! Reaps orphans: processes that lost their parent and became children of the server.
//!
//! The kernel gives orphans to process 1, which in a container is the server, or to a *subreaper*. Nobody
//! else can reap them, and each would occupy a pid for ever.

use crate::children::{Children, Owner};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The pause while no child exists, or while the server has not reaped a child of its own.
const PAUSE: Duration = Duration::from_millis(100);

/// Starts a thread that reaps orphans, if this process gets any.
pub(crate) fn reap(children: Arc<Children>) -> io::Result<()> {
    if !gets_orphans() {
        return Ok(());
    }
    thread::Builder::new().name("orphans".into()).spawn(move || {
        loop {
            if next(&children) != Ok(Owner::Other) {
                thread::sleep(PAUSE);
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
    Ok(children.unless_own(pid.as_raw().unsigned_abs(), || {
        let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
    }))
}
