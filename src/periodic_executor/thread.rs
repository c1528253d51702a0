//! The flavour with a thread of its own.

use super::builder::Builder;
use super::core::After;

use super::outcome::{BoxError, Ended, Flow, JoinError, Joined, OpenError, Verdict};
use super::periodic::{Flavour, Periodic};
use super::run::{PendingRun, Run};
use super::weak::{WeakRef, call};
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Deadline;
use crate::kernel::section::{Patience, now};
use crate::kernel::sync::Parker;
use crate::kernel::sync::thread::{self, Thread};
use crate::kernel::user_code::contain;
use std::sync::Weak;
use std::time::Duration;

/// Calls a target again and again, on a thread of its own, with a pause after each call.
///
/// See the [module](super). Clones are handles to the same executor; dropping the last one closes it.
///
/// ```
/// use cabrank::periodic_executor::Joined;
/// use cabrank::PeriodicExecutor;
/// use std::time::Duration;
///
/// let mut left = 3;
/// let countdown = PeriodicExecutor::builder(Duration::from_millis(1)).name("countdown").build(
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
/// A monitor owns an executor that refers to it weakly. Dropping the monitor ends the thread, at once and without
/// waiting.
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
///         .build_weak(me.clone(), |monitor| {
///             // Check something.
///             let _ = monitor;
///         }),
/// });
/// monitor.executor.open()?;
/// monitor.executor.wake(); // an extra look, no sooner than half a second after the last
/// drop(monitor);
/// # Ok::<(), cabrank::periodic_executor::OpenError>(())
/// ```
pub type PeriodicExecutor = Periodic<OnThread>;

/// The flavour of [`PeriodicExecutor`], for its [`Builder`].
#[derive(Clone, Debug)]
pub struct OnThread {
    stack_size: Option<usize>,
}

/// The target of an executor with a thread.
pub struct ThreadTarget(Box<dyn FnMut() -> Verdict + Send>);

impl Flavour for OnThread {
    type Target = ThreadTarget;
    const NAME: &'static str = "PeriodicExecutor";
}

impl Builder<OnThread> {
    /// Sets the stack size of the thread, in bytes. Default: the system's.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.flavour.stack_size = Some(bytes);
        self
    }

    /// Builds an executor that calls `target`. The executor is not open yet.
    pub fn build<R: Into<Flow>>(
        self,
        mut target: impl FnMut() -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.calls(move || Verdict::Flow(target().into()))
    }

    /// Builds an executor that calls `f` with the target while the target exists. The executor is not open yet.
    ///
    /// A call keeps the target alive until it ends. Unless the target's owner keeps a
    /// [`CloseOnDrop`](super::CloseOnDrop) or the only handle, the executor notices that the target is gone when the
    /// next call is due.
    pub fn build_weak<T: Send + Sync + ?Sized + 'static, R: Into<Flow>>(
        self,
        target: Weak<T>,
        mut f: impl FnMut(&T) -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.build_weak_ref(target, move |target| -> Flow { f(target).into() })
    }

    /// Builds the same executor for any kind of weak reference.
    pub(crate) fn build_weak_ref<W: WeakRef + Send + 'static, R: Into<Verdict>>(
        self,
        target: W,
        mut f: impl FnMut(&W::Strong) -> R + Send + 'static,
    ) -> PeriodicExecutor {
        self.calls(move || call(&target, &mut f))
    }

    fn calls(self, target: impl FnMut() -> Verdict + Send + 'static) -> PeriodicExecutor {
        let (settings, flavour) = self.settings();
        Periodic::new(settings, ThreadTarget(Box::new(target)), flavour)
    }
}

impl PeriodicExecutor {
    /// Returns a builder for an executor that pauses for `interval` after each call of its target.
    ///
    /// With `None` each pause lasts until a wake.
    pub fn builder(interval: impl Into<Option<Duration>>) -> Builder<OnThread> {
        Builder::new(interval.into(), OnThread { stack_size: None })
    }

    /// Opens the executor: a new thread calls the target at once, and then periodically.
    ///
    /// On an open executor this does nothing, with one exception: if the call under way asks to stop, the executor
    /// goes on. After a close that the run has not obeyed yet, the run goes on with a call at once.
    ///
    /// # Errors
    /// - [`OpenError::ShutDown`]: the registry was shut down.
    /// - [`OpenError::Forked`]: the executor was open when this process was forked.
    /// - [`OpenError::NotStarted`]: the system refused the thread, or its name. If a concurrent open has
    ///   returned success meanwhile, the start is tried once more. If that fails, too, [`join`](Self::join) returns
    ///   [`Joined::Abandoned`].
    pub fn open(&self) -> Result<(), OpenError> {
        let OnThread { stack_size } = self.flavour();
        self.core().open(|pending| {
            let procedure = move |thread| run_thread(&pending, thread);
            // `std` panics at a thread name with a NUL byte.
            let start = || thread::start_joinable(self.name(), *stack_size, procedure);
            contain(start)?.map_err(BoxError::from)
        })
    }

    /// Blocks until the run has ended, if there is one, and its thread is gone.
    ///
    /// The executor's own thread cannot wait for itself. A join from the target returns [`Joined::Itself`] at once.
    /// A join from the destructor of a thread-local of that thread returns how the run ended. In a forked child, a join
    /// of an executor that the parent had opened returns [`Joined::Forked`] at once.
    ///
    /// ```
    /// # use cabrank::PeriodicExecutor;
    /// # use std::time::Duration;
    /// use cabrank::periodic_executor::{Flow, Joined};
    ///
    /// let executor = PeriodicExecutor::builder(None).build(|| Flow::Stop);
    /// executor.open()?;
    /// assert_eq!(executor.join()?, Joined::Finished);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if the target panicked. Each join returns it until the executor is opened again.
    pub fn join(&self) -> Result<Joined, JoinError> {
        now(self.core().join(Patience::Thread(Deadline::Never)))
    }

    /// Blocks like [`join`](Self::join), for at most `timeout`.
    ///
    /// By a manual clock the timeout limits the wait for the run. The thread then needs real time to leave.
    ///
    /// # Errors
    /// [`JoinError::TimedOut`], [`JoinError::Panicked`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<Joined, JoinError> {
        let core = self.core();
        now(core.join(Patience::Thread(core.settings.clock.deadline(timeout))))
    }
}

/// The procedure of the thread.
fn run_thread(pending: &PendingRun<ThreadTarget>, thread: Thread) {
    let Some(mut run) = pending.begin() else { return };
    run.thread = Some(thread);
    let parker = Parker::of_this_thread();
    loop {
        let ended = call_until_it_ends(&mut run, &parker);
        if !run.end(ended) {
            return;
        }
    }
}

fn call_until_it_ends(run: &mut Run<ThreadTarget>, parker: &Parker) -> Ended {
    let core = run.core.clone();
    while core.signal.begin_call() {
        let verdict = {
            let _at_work = AtWork::begin(&*core);
            contain(|| (run.target().0)())
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
