//! Application code for the models of the interlock, which notices whether it is alone.

pub(in crate::models) use crate::execution::interlock::{AcquireError, OwnerState, Running};
pub(in crate::models) use crate::models::rig::{
    Counter, Model, Reentry, block_on, explore, poll_once, spawn,
};
pub(in crate::models) use crate::{Interlock, ManualClock};

use crate::execution::interlock::{Caller, Purpose};
use crate::kernel::section::now;
use crate::kernel::sync::Flag;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Application code that runs, is loaded and is unloaded.
///
/// Its bodies assert PROP-ILK-USE-UNDER-SHARE: during a load or an unload no other code runs. The tool
/// does not schedule at its numbers. It does at the flag, so that other threads come in between.
#[derive(Clone)]
pub(in crate::models) struct LoadedCode(Arc<Inside>);

struct Inside {
    running: AtomicUsize,
    alone: AtomicUsize,
    step: Flag,
    log: Mutex<Vec<&'static str>>,
}

impl LoadedCode {
    pub(in crate::models) fn new() -> Self {
        LoadedCode(Arc::new(Inside {
            running: AtomicUsize::new(0),
            alone: AtomicUsize::new(0),
            step: Flag::new(false),
            log: Mutex::default(),
        }))
    }
    /// Runs the body of an execution with a share.
    pub(in crate::models) fn runs(&self) {
        self.0.running.fetch_add(1, SeqCst);
        assert_eq!(self.0.alone.load(SeqCst), 0, "code runs during a load or an unload");
        self.0.step.is_raised();
        assert_eq!(self.0.alone.load(SeqCst), 0, "a load or an unload began under running code");
        self.0.running.fetch_sub(1, SeqCst);
    }
    /// Runs the body of a load or an unload: one at a time (INV-ILK-ONE-HOLDER).
    pub(in crate::models) fn alone(&self, what: &'static str) {
        assert_eq!(self.0.alone.fetch_add(1, SeqCst), 0, "two owners load or unload at once");
        assert_eq!(self.0.running.load(SeqCst), 0, "a load or an unload began under running code");
        self.note(what);
        self.0.step.is_raised();
        assert_eq!(self.0.running.load(SeqCst), 0, "code ran during a load or an unload");
        self.0.alone.fetch_sub(1, SeqCst);
    }
    /// Adds to the log.
    pub(in crate::models) fn note(&self, what: &'static str) {
        self.0.log.lock().expect("no panic").push(what);
    }
    pub(in crate::models) fn log(&self) -> String {
        self.0.log.lock().expect("no panic").join(", ")
    }
}

/// Returns an execution that has a share, and may go to another thread. It is a task's, so no call nests in it.
pub(in crate::models) fn owner(interlock: &Interlock) -> Running<'static> {
    limited_owner(interlock, interlock.acquire_timeout())
}
/// Returns the same, with a time limit for each of its waits.
pub(in crate::models) fn limited_owner(
    interlock: &Interlock,
    limit: Option<Duration>,
) -> Running<'static> {
    now(interlock.enter_by(Caller::task(limit))).expect("no other owner is in its way")
}

/// Returns an execution of this thread that has a share.
pub(in crate::models) fn thread_owner(interlock: &Interlock) -> Running<'static> {
    let caller = Caller::thread(interlock.acquire_timeout());
    now(interlock.enter_by(caller)).expect("no other owner is in its way")
}

/// Unloads by an execution's share, as a reload does.
pub(in crate::models) fn unload(running: &mut Running<'_>, f: impl FnOnce()) {
    now(unload_by(running, Caller::thread(None), f));
}
/// Returns the same as a future.
pub(in crate::models) fn unload_async(
    running: &mut Running<'_>,
    f: impl FnOnce(),
) -> impl Future<Output = ()> {
    unload_by(running, Caller::task(None), f)
}
async fn unload_by(running: &mut Running<'_>, caller: Caller, f: impl FnOnce()) {
    let held = running.hold(Purpose::Unload, caller).await.expect("no limit");
    f();
    held.finish(true, caller).await.expect("no limit");
}

/// Returns a poller whose wakers call the interlock when they are woken and when they are dropped.
pub(in crate::models) fn reentry(interlock: &Interlock) -> Reentry {
    let (reentry, interlock) = (Reentry::default(), interlock.clone());
    reentry.enable(move || _ = interlock.generation());
    reentry
}

/// Returns the number of owners in this state.
pub(in crate::models) fn in_state(interlock: &Interlock, state: OwnerState) -> usize {
    interlock.dump().owners.iter().filter(|owner| owner.state == state).count()
}

/// Asserts that no execution is left, and no share: an unload begins.
pub(in crate::models) fn assert_free(interlock: &Interlock, code: &LoadedCode) {
    interlock.unload(|_| code.alone("end")).expect("no owner is left");
    assert!(interlock.dump().owners.is_empty());
}
