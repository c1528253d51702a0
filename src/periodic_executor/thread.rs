//! The flavour with a thread of its own.

use super::core::{After, Core, Handle, Inside, PendingRun, Run};
use super::outcome::{Ended, Flow, JoinError, Joined, OpenError, Phase, Verdict};
use super::weak::{WeakRef, call};
use super::{CloseOnDrop, ExecutorBuilder};
use crate::clock::Deadline;
use crate::sync::{Parker, thread};
use crate::user_code::contain;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

type Target = Box<dyn FnMut() -> Verdict + Send>;

/// Calls a target on a thread of its own, again and again, with a pause after each call. See the
/// [module](super). Clones are handles to the same executor; dropping the last one closes it.
///
/// ```
/// use cabrank::{Joined, PeriodicExecutor};
/// use std::time::Duration;
///
/// let mut left = 3;
/// let countdown = PeriodicExecutor::builder(Duration::from_millis(1)).name("countdown").target(
///     move || {
///         left -= 1;
///         left > 0 // false: stop
///     },
/// );
/// countdown.open()?;
/// assert_eq!(countdown.join()?, Joined::Finished);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A monitor that has its executor, which refers to it weakly: whoever drops the monitor ends the
/// thread, at once and without waiting.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use std::sync::{Arc, Weak};
/// use std::time::Duration;
///
/// struct Monitor {
///     executor: PeriodicExecutor,
/// }
/// let monitor = Arc::new_cyclic(|me: &Weak<Monitor>| Monitor {
///     executor: PeriodicExecutor::builder(Duration::from_secs(10))
///         .min_interval(Duration::from_millis(500))
///         .weak(me.clone(), |monitor| {
///             // Looks after something.
///             let _ = monitor;
///         }),
/// });
/// monitor.executor.open()?;
/// monitor.executor.wake(); // an extra look, no sooner than half a second after the last
/// drop(monitor);
/// # Ok::<(), cabrank::OpenError>(())
/// ```
#[derive(Clone)]
pub struct PeriodicExecutor(Arc<Shared>);

struct Shared {
    handle: Handle<Target>,
    stack_size: Option<usize>,
}

/// The flavour of [`PeriodicExecutor`], for its [`ExecutorBuilder`].
#[derive(Clone, Debug)]
pub struct OnThread {
    stack_size: Option<usize>,
}

impl ExecutorBuilder<OnThread> {
    /// The stack size of its thread. Default: the system's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.flavour.stack_size = Some(bytes);
        self
    }

    /// The executor that calls `target`. It is not open yet.
    pub fn target<R: Into<Flow>>(
        self,
        mut target: impl FnMut() -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.calls(Box::new(move || Verdict::Flow(target().into())))
    }

    /// The executor that calls `f` with the target as long as there is one. It is not open yet.
    ///
    /// The target is kept during a call only. Without a [`CloseOnDrop`] (or the only handle) in its owner, its
    /// end is noticed when the next call is due.
    pub fn weak<T: Send + Sync + ?Sized + 'static, R: Into<Flow>>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(&T) -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.weak_ref(target, move |target| -> Flow { f(target).into() })
    }

    /// The same, whoever counts the references.
    pub(crate) fn weak_ref<W: WeakRef + Send + 'static, R: Into<Verdict>>(
        self,
        target: W,
        mut f: impl FnMut(&W::Strong) -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.calls(Box::new(move || call(&target, &mut f)))
    }

    fn calls(self, target: Target) -> PeriodicExecutor {
        let (settings, OnThread { stack_size }) = self.settings();
        let handle = Handle(Core::new(settings, target));
        PeriodicExecutor(Arc::new(Shared { handle, stack_size }))
    }
}

impl PeriodicExecutor {
    /// Begins to build an executor that pauses for `interval` after each call of its target;
    /// `Duration::MAX`: until it is woken.
    pub fn builder(interval: Duration) -> ExecutorBuilder<OnThread> {
        ExecutorBuilder::new(interval, OnThread { stack_size: None })
    }

    fn core(&self) -> &Arc<Core<Target>> {
        &self.0.handle.0
    }

    /// Opens it: the target is called at once, on a new thread, and then periodically. Does nothing if it
    /// is open already, but if the target stops it by the call during which this is called, it goes on.
    /// After a close that has not been obeyed yet, it goes on with a call at once.
    ///
    /// # Errors
    /// [`OpenError::ShutDown`] if its registry has been shut down, [`OpenError::NotStarted`] if the system
    /// gives no thread, or none of this name. If it is opened by others meanwhile, to whom it was open, there is
    /// one more try for them: if that fails, too, they are told by [`join`](Self::join), by
    /// [`Joined::Abandoned`].
    pub fn open(&self) -> Result<(), OpenError> {
        let (name, stack_size) = (self.name(), self.0.stack_size);
        self.core().open(|unbegun| {
            // To ask for a thread by a name that none can have is a panic.
            let begin = || thread::start(name, stack_size, move || carry_out(&unbegun));
            contain(begin)?.map_err(|e| e.to_string())
        })
    }

    /// Closes it: the target is not called again; a call that is under way is finished. Does not wait
    /// for it: [`join`](Self::join) does. Takes no lock, allocates nothing.
    pub fn close(&self) {
        self.core().signal.close();
    }

    /// Has the target called soon: at once, or when `min_interval` has passed since the last call. If a
    /// call is under way, there will be another: it may have missed what this is about. Takes no lock,
    /// allocates nothing.
    pub fn wake(&self) {
        self.core().signal.wake();
    }

    /// Changes the interval, from the next pause on. The pause under way, if there is one, stays as it is.
    pub fn update_interval(&self, interval: Duration) {
        self.core().update_interval(interval);
    }

    /// Leaves out the next pause, and `min_interval` with it: for a target that has more to do. If a
    /// pause is under way, it is the one after it. Takes no lock, allocates nothing.
    pub fn skip_sleep(&self) {
        self.core().signal.skip_sleep();
    }

    /// Waits until its run has ended, if there is one. Called by its own target, returns at once.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if the target panicked; until it is opened again, to each who asks.
    pub fn join(&self) -> Result<Joined, JoinError> {
        self.core().join(Deadline::Never)
    }

    /// Waits likewise, for `timeout` at most.
    ///
    /// # Errors
    /// [`JoinError::TimedOut`], [`JoinError::Panicked`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<Joined, JoinError> {
        let core = self.core();
        core.join(core.settings.clock.deadline(timeout))
    }

    /// Whether it is open: opened, not closed since, and not stopped by its target.
    pub fn is_open(&self) -> bool {
        self.core().signal.is_open()
    }
    /// What it is doing.
    pub fn phase(&self) -> Phase {
        self.core().signal.phase()
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.core().settings.name
    }
    /// What closes it when it is dropped: for the target's owner to keep.
    pub fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop(self.core().clone())
    }
}

impl fmt::Debug for PeriodicExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.handle.fmt("PeriodicExecutor", f)
    }
}

/// The thread.
fn carry_out(unbegun: &PendingRun<Target>) {
    let Some(mut run) = unbegun.begin() else { return };
    let parker = Parker::of_this_thread();
    loop {
        let ended = call_until_it_ends(&mut run, &parker);
        if !run.end(ended) {
            return;
        }
    }
}

fn call_until_it_ends(run: &mut Run<Target>, parker: &Parker) -> Ended {
    let core = run.core.clone();
    while core.signal.begin_call() {
        let verdict = {
            let _inside = Inside::of(&core);
            contain(|| run.target()())
        };
        match core.after(verdict) {
            After::End(ended) => return ended,
            After::Pause(mut pause) => {
                while let Some(limit) = core.sleep(&mut pause, parker.waker()) {
                    parker.park_until(limit.instant());
                }
            }
        }
    }
    Ended::Joined(Joined::Closed)
}
