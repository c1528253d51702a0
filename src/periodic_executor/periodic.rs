//! The executor of both flavours: its handles, and the calls that do not depend on the flavour.

use super::core::{Core, Settings};
use super::outcome::Phase;
use super::registry::Member;
use crate::kernel::sync::has_failed;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The place where an executor calls its target: [`OnThread`](super::OnThread) or [`OnRuntime`](super::OnRuntime).
///
/// Only this library implements it.
pub trait Flavour {
    #[doc(hidden)]
    type Target: Send + 'static;
    #[doc(hidden)]
    const NAME: &'static str;
}

/// An executor of either flavour: a [`PeriodicExecutor`](super::PeriodicExecutor), or an
/// [`AsyncPeriodicExecutor`](super::AsyncPeriodicExecutor).
///
/// Clones are handles to the same executor; dropping the last one closes it.
pub struct Periodic<F: Flavour>(Arc<Shared<F>>);

struct Shared<F: Flavour> {
    core: Arc<Core<F::Target>>,
    flavour: F,
}

impl<F: Flavour> Drop for Shared<F> {
    fn drop(&mut self) {
        if !has_failed() {
            self.core.signal.close();
        }
    }
}

impl<F: Flavour> Periodic<F> {
    pub(super) fn new(settings: Settings, target: F::Target, flavour: F) -> Self {
        Periodic(Arc::new(Shared { core: Core::new(settings, target), flavour }))
    }
    pub(super) fn core(&self) -> &Arc<Core<F::Target>> {
        &self.0.core
    }
    pub(super) fn flavour(&self) -> &F {
        &self.0.flavour
    }

    /// Closes the executor. A call under way ends; no other call begins.
    ///
    /// Does not wait: a join does. Takes no lock of the library's and does not allocate. It may wake a runtime's
    /// waker.
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
    /// A wake during a call causes another call, because the present one may have missed the reason. Like
    /// [`close`](Self::close), it takes no lock and does not allocate.
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

    /// Returns whether the executor is open: opened, not closed since, and not stopped by its target.
    pub fn is_open(&self) -> bool {
        self.core().signal.is_open() && !self.core().is_forked()
    }
    /// Returns the present activity of the executor.
    pub fn phase(&self) -> Phase {
        if self.core().is_forked() { Phase::Stopped } else { self.core().signal.phase() }
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
        CloseOnDrop(self.core().clone())
    }
}

impl<F: Flavour> Clone for Periodic<F> {
    fn clone(&self) -> Self {
        Periodic(self.0.clone())
    }
}

impl<F: Flavour> fmt::Debug for Periodic<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(F::NAME)
            .field("name", &self.name())
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

/// Closes an executor when it is dropped, however many handles the executor has.
///
/// The owner of the target keeps one, so that the executor ends with the owner, at once. An owner that keeps the
/// executor's only handle does not need it. The drop takes no lock, does not allocate and does not wait. So the
/// owner may be dropped anywhere, also on the executor's own thread.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::CloseOnDrop;
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
/// use std::time::Duration;
///
/// /// Counts while it lives.
/// struct Counter { count: Arc<AtomicUsize>, _executor: CloseOnDrop }
///
/// let count = Arc::new(AtomicUsize::new(0));
/// let counted = count.clone();
/// let executor = PeriodicExecutor::builder(Duration::from_secs(1))
///     .build(move || _ = counted.fetch_add(1, Ordering::Relaxed));
/// executor.open()?;
/// let counter = Counter { count, _executor: executor.close_on_drop() };
/// println!("called {} times", counter.count.load(Ordering::Relaxed));
/// drop(counter);
/// assert!(!executor.is_open());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CloseOnDrop(Arc<dyn Member>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.close();
        }
    }
}

impl fmt::Debug for CloseOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CloseOnDrop").field(&self.0.name()).finish()
    }
}
