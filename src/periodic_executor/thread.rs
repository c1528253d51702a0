//! The flavour with a thread of its own.

use super::builder::Builder;
use super::core::{After, Core};
use super::handle::{CloseOnDrop, Handle};
use super::join::Inside;
use super::outcome::{BoxError, Ended, Flow, JoinError, Joined, OpenError, Phase, Verdict};
use super::run::{PendingRun, Run};
use super::weak::{WeakRef, call};
use crate::clock::Deadline;
use crate::sync::{Parker, thread};
use crate::user_code::contain;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

type Target = Box<dyn FnMut() -> Verdict + Send>;

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
#[derive(Clone)]
pub struct PeriodicExecutor(Arc<Shared>);

struct Shared {
    handle: Handle<Target>,
    stack_size: Option<usize>,
}

/// The flavour of [`PeriodicExecutor`], for its [`Builder`].
#[derive(Clone, Debug)]
pub struct OnThread {
    stack_size: Option<usize>,
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
        self.calls(Box::new(move || Verdict::Flow(target().into())))
    }

    /// Builds an executor that calls `f` with the target while the target exists. The executor is not open yet.
    ///
    /// A call keeps the target alive until it ends. Unless the target's owner keeps a [`CloseOnDrop`] or the
    /// only handle, the executor notices that the target is gone when the next call is due.
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
        self.calls(Box::new(move || call(&target, &mut f)))
    }

    fn calls(self, target: Target) -> PeriodicExecutor {
        let (settings, OnThread { stack_size }) = self.settings();
        let handle = Handle(Core::new(settings, target));
        PeriodicExecutor(Arc::new(Shared { handle, stack_size }))
    }
}

impl PeriodicExecutor {
    /// Returns a builder for an executor that pauses for `interval` after each call of its target.
    ///
    /// With `None` each pause lasts until a wake.
    pub fn builder(interval: impl Into<Option<Duration>>) -> Builder<OnThread> {
        Builder::new(interval.into(), OnThread { stack_size: None })
    }

    fn core(&self) -> &Arc<Core<Target>> {
        &self.0.handle.0
    }

    /// Opens the executor: a new thread calls the target at once, and then periodically.
    ///
    /// On an open executor this does nothing, with one exception: if the call under way asks to stop, the executor
    /// goes on. After a close that the run has not obeyed yet, the run goes on with a call at once.
    ///
    /// # Errors
    /// - [`OpenError::ShutDown`]: the registry was shut down.
    /// - [`OpenError::NotStarted`]: the system refused the thread, or its name. If a concurrent open has
    ///   returned success meanwhile, the start is tried once more. If that fails, too, [`join`](Self::join) returns
    ///   [`Joined::Abandoned`].
    pub fn open(&self) -> Result<(), OpenError> {
        let (name, stack_size) = (self.name(), self.0.stack_size);
        self.core().open(|pending| {
            // `std` panics at a thread name with a NUL byte.
            let begin = || thread::start(name, stack_size, move || run_thread(&pending));
            contain(begin)?.map_err(BoxError::from)
        })
    }

    /// Closes the executor. A call under way ends; no other call begins.
    ///
    /// Does not wait: see [`join`](Self::join). Takes no lock and does not allocate.
    ///
    /// ```
    /// # use cabrank::PeriodicExecutor;
    /// # use std::time::Duration;
    /// use cabrank::periodic_executor::Joined;
    ///
    /// let executor = PeriodicExecutor::builder(Duration::from_secs(10)).build(|| {});
    /// executor.open()?;
    /// executor.close();
    /// assert_eq!(executor.join()?, Joined::Closed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.core().signal.close();
    }

    /// Has the target called now, or as soon as `min_interval` has passed since the last call.
    ///
    /// A wake during a call causes another call, for the present one may have missed the reason. Takes no lock,
    /// allocates nothing.
    ///
    /// ```
    /// # use cabrank::PeriodicExecutor;
    /// # use std::time::Duration;
    /// let (sender, called) = std::sync::mpsc::channel();
    /// let executor = PeriodicExecutor::builder(None).build(move || _ = sender.send(()));
    /// executor.open()?;
    /// called.recv()?; // the first call
    /// executor.wake();
    /// called.recv()?; // the second
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wake(&self) {
        self.core().signal.wake();
    }

    /// Changes the interval, from the next pause on; `None`: until a wake. A pause under way keeps its length.
    pub fn update_interval(&self, interval: impl Into<Option<Duration>>) {
        self.core().update_interval(interval.into());
    }

    /// Skips the next pause, including `min_interval`, for a target that has more to do.
    ///
    /// A pause under way is not skipped, but the one after it. Takes no lock and does not allocate.
    pub fn skip_sleep(&self) {
        self.core().signal.skip_sleep();
    }

    /// Blocks until the run has ended, if there is one. Returns at once if the target itself calls it.
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
        self.core().join(Deadline::Never)
    }

    /// Blocks like [`join`](Self::join), for at most `timeout`.
    ///
    /// # Errors
    /// [`JoinError::TimedOut`], [`JoinError::Panicked`].
    pub fn join_timeout(&self, timeout: Duration) -> Result<Joined, JoinError> {
        let core = self.core();
        core.join(core.settings.clock.deadline(timeout))
    }

    /// Returns whether the executor is open: opened, not closed since, and not stopped by its target.
    pub fn is_open(&self) -> bool {
        self.core().signal.is_open()
    }
    /// Returns the present activity of the executor.
    pub fn phase(&self) -> Phase {
        self.core().signal.phase()
    }
    /// Returns the name of the executor.
    pub fn name(&self) -> &str {
        &self.core().settings.name
    }
    /// Returns a value that closes the executor when it is dropped, for the target's owner to keep.
    ///
    /// ```
    /// # use cabrank::PeriodicExecutor;
    /// # use std::time::Duration;
    /// let executor = PeriodicExecutor::builder(None).build(|| {});
    /// executor.open()?;
    /// let guard = executor.close_on_drop();
    /// drop(guard);
    /// assert!(!executor.is_open());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close_on_drop(&self) -> CloseOnDrop {
        CloseOnDrop::new(self.core().clone())
    }
}

impl fmt::Debug for PeriodicExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.handle.fmt("PeriodicExecutor", f)
    }
}

/// The procedure of the thread.
fn run_thread(pending: &PendingRun<Target>) {
    let Some(mut run) = pending.begin() else { return };
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
