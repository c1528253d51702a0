//! The start and the end of a run.

use super::core::{Core, Ending};
use super::exit::Exit;
use super::outcome::{BoxError, Ended, Joined, OpenError};
use super::registry::Registry;
use crate::kernel::effects::OnWaiter;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::kernel::sync::thread::Thread;
use crate::kernel::user_code::UserValue;
use std::mem::take;
use std::sync::{Arc, PoisonError, Weak};

impl<T: Send + 'static> Core<T> {
    /// Opens the executor. `start` passes the run to a thread or task, or fails and drops it.
    pub(super) fn open(
        self: &Arc<Self>,
        start: impl Fn(PendingRun<T>) -> Result<(), BoxError>,
    ) -> Result<(), OpenError> {
        if self.is_forked() {
            return Err(OpenError::Forked);
        }
        self.is_in_this_process();
        if self.signal.is_settled() {
            return Ok(());
        }
        let member = match self.settings.registered.registry() {
            Some(registry) => {
                let me: Weak<Self> = Arc::downgrade(self);
                match registry.admit(me, || self.signal.open())? {
                    None => return Ok(()),
                    Some(entry) => Some((registry, entry)),
                }
            }
            None if self.signal.open() => None,
            None => return Ok(()),
        };
        let mut run = Run::new(self.clone(), member);
        // A concurrent `open` may have found this run, and have returned success already. For its sake a failed
        // `start` is tried once more. More tries might not end: a further `open` may come during each of them.
        let mut may_try_again = true;
        loop {
            let pending = PendingRun::new(run);
            let Err(why) = start(pending.clone()) else { return Ok(()) };
            match pending.begin() {
                Some(back) => run = back,
                // `start` failed, but a thread or task had already taken the run, which may have ended since.
                None if self.signal.is_running() => return Ok(()),
                None => return Err(OpenError::not_started(why)),
            }
            if !run.try_to_end(Ended::Joined(Joined::Abandoned), take(&mut may_try_again)) {
                return Err(OpenError::not_started(why));
            }
        }
    }
}

/// One run of the executor: a thread or task owns the target, which is the user's value, from start to end.
pub(super) struct Run<T: Send + 'static> {
    pub(super) core: Arc<Core<T>>,
    /// `None` once the run has ended.
    target: Option<UserValue<T>>,
    /// The run's entry in the registry of open executors, if the executor has a registry.
    member: Option<(Registry, usize)>,
    /// The run's own thread, if it has one.
    pub(super) thread: Option<Thread>,
}

impl<T: Send + 'static> Run<T> {
    fn new(core: Arc<Core<T>>, member: Option<(Registry, usize)>) -> Self {
        let target = core.critical(|ending, _| ending.target.take());
        Run { core, target: Some(target.expect("no other run owns it")), member, thread: None }
    }
    pub(super) fn target(&mut self) -> &mut T {
        self.target.as_mut().expect("the run has not ended")
    }

    /// Ends the run and returns false; or returns true if the executor was opened again meanwhile, and the run goes
    /// on.
    pub(super) fn end(&mut self, ended: Ended) -> bool {
        self.try_to_end(ended, true)
    }

    fn try_to_end(&mut self, ended: Ended, can_go_on: bool) -> bool {
        let core = &*self.core;
        drop(core.signal.take_waker());
        let mut older = Vec::new();
        let goes_on = core.critical(|ending, fx| {
            let Ending { target, last, joining, queue, exits } = ending;
            let goes_on = core.signal.end(can_go_on);
            // If the run goes on, its joins keep waiting. After a panic, each waiting join returns the panic.
            if !goes_on || matches!(ended, Ended::Panicked(_)) {
                while !queue.is_empty() {
                    let wake = joining.resolve_front(queue, ended.clone());
                    fx.push(OnWaiter::Wake(wake));
                }
            }
            if goes_on {
                return true;
            }
            *last = ended;
            *target = self.target.take();
            let name = &core.settings.name;
            let exit = self.thread.take().map(|thread| Exit { name: name.clone(), thread });
            if let Some((registry, entry)) = self.member.take() {
                older.extend(registry.leave(entry, exit.clone()));
            }
            if let Some(exit) = exit {
                older.extend(exits.add(exit));
            }
            debug_assert!(target.is_some(), "INV-TARGET: a run that ends puts the target back");
            debug_assert!(queue.is_empty(), "INV-JOINED: no join waits for a run that has ended");
            false
        });
        older.iter().for_each(|exit| exit.thread.reap());
        goes_on
    }
}

impl<T: Send + 'static> Drop for Run<T> {
    fn drop(&mut self) {
        if self.target.is_some() && !has_failed() {
            self.try_to_end(Ended::Joined(Joined::Abandoned), false);
        }
    }
}

/// A run that has not begun. Its opener and its thread or task share it; the first of them takes it.
///
/// The opener takes it back where the start failed. If both drop it, the run ends.
pub(super) struct PendingRun<T: Send + 'static>(
    /// Locked only while the run is taken.
    Arc<std::sync::Mutex<Option<Run<T>>>>,
);

impl<T: Send + 'static> PendingRun<T> {
    fn new(run: Run<T>) -> Self {
        PendingRun(Arc::new(std::sync::Mutex::new(Some(run))))
    }
    /// Takes the run, unless it was taken before.
    pub(super) fn begin(&self) -> Option<Run<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Send + 'static> Clone for PendingRun<T> {
    fn clone(&self) -> Self {
        PendingRun(self.0.clone())
    }
}
