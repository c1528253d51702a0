//! The load interlock: many executions run application code; a load or an unload runs alone.
//!
//! An execution has a *share* from its begin to its end. To load, it gives its share up, waits until no other
//! execution runs, and loads. Then other waiting loads have their turn, and all go on together. An unload also waits
//! for permit blocks to end. In a permit block an execution has no share and uses no loaded value, so it may wait for
//! an execution that loads.
//!
//! ```
//! use cabrank::Interlock;
//! use cabrank::execution::interlock::{AcquireError, Loaded};
//!
//! let (interlock, greeting) = (Interlock::new(), Loaded::new());
//! let length = interlock.run(|running| {
//!     let text = greeting.get_or_load(running, || Ok::<_, AcquireError>("hello"))?;
//!     Ok::<_, AcquireError>(text.len())
//! })?;
//! assert_eq!(length?, 5);
//! # Ok::<(), AcquireError>(())
//! ```
//!
//! # Nesting
//! Executions nest by the thread or the task that they are in.
//! - Inside an execution, another one is a view of it: it uses the same share, so it does not wait. Only if the share
//!   is missing, because a wait was dropped or timed out, it waits until the holder releases. A blocking call in a task
//!   fails then, because the holder may be a task of the same thread. A view may load and permit, but not unload,
//!   because the code around it keeps its handles.
//! - Inside a load or an unload, executions and further loads do not wait either.
//! - Inside a permit block, another one is separate, and waits as a newcomer.
//!
//! A call that would wait for itself fails at once, with [`AcquireError::Deadlock`].
//!
//! # Limits
//! - The interlock sees only its own waits. A body may also wait by a join, a channel or another lock, or block the
//!   thread of a task that has to be polled. If it so waits for an execution that waits for this one, only a [time
//!   limit](InterlockBuilder::acquire_timeout) ends that; there is none by default. A [permit
//!   block](Running::permit_loads) around such a wait lets the other execution load, but not unload or reload.
//! - An unload waits as long as executions with permit blocks overlap without a gap. While a block is open, newcomers
//!   pass the unload, because the block may wait for them. A newcomer's own block lets the next ones pass.
//! - A leaked guard or future keeps its share for ever. A time limit ends the waits of the others, and the
//!   [dump](Interlock::dump) names the owner.
//! - A call in a task that blocks its thread may wait for ever for another task of that thread. So may a future that a
//!   thread blocks on inside an execution, and a call in a thread-local's destructor.
//! - The borrow checker sees one view only. A handle of another view keeps the old value while that is loaded again. A
//!   [`Loaded::clear`] beside a handle panics.
//! - In a forked child, a limited wait of a task times out at once if the parent had one: the timer thread is gone.
//! - Concurrent branches of one task share one execution. While one branch waits or holds, a load or a permit of
//!   another fails with a deadlock. [`Loaded::get`] then returns `None`, and also while a branch permits loads.
//!
//! # Origin
//! The load interlock of Rails, with these differences:
//! - In Rails a circle of waits hangs, and a leaked execution keeps its share silently. Here time limits end the waits.
//! - In Rails newcomers overtake for ever an unload that is requested outside an execution. Here such an unload enters
//!   first, and then keeps newcomers out.

mod caller;
mod dump;
mod enter;
mod error;
mod inner;
#[cfg(any(test, debug_assertions))]
mod invariants;
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod invariants_tests;
mod loaded;
mod modes;
mod reload_state;
mod running;
mod sections;
mod settle;
mod state;
mod timer;
mod transitions;

pub(crate) use caller::Caller;
pub use caller::OwnerId;
pub use dump::{BlockedBy, Dump, OwnerDump, OwnerState, WaitDump};
pub use error::{AcquireError, Blocked};
pub use loaded::{Handle, Loaded};
pub(crate) use modes::{Purpose, Step};
pub use running::Running;
pub(crate) use sections::Held;
pub use sections::{Loading, Unloading};

use super::ambient;
use super::named::opaque;
use super::scoped::scoped;
use crate::kernel::clock::Clock;
use crate::kernel::section::{Lock, now};
use inner::Inner;
use reload_state::ReloadState;
use state::State;
use std::future::Future;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The load interlock. Cheap to clone: all clones are the same interlock.
///
/// ```
/// let interlock = cabrank::Interlock::new();
/// let alone = interlock.run(|running| running.load(|_loading| "no other execution runs here"))??;
/// # Ok::<(), cabrank::execution::interlock::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Interlock(Arc<Inner>);

impl Interlock {
    /// Creates an interlock without a time limit.
    pub fn new() -> Self {
        Interlock::builder().build()
    }
    /// Returns a builder of an interlock.
    pub fn builder() -> InterlockBuilder {
        InterlockBuilder::default()
    }

    /// Calls `f` in an execution, which begins once no other loads or unloads, or waits to.
    ///
    /// While a permit block is open, it passes an unload that waits. Inside another execution it joins that one: see
    /// [Nesting](self#nesting).
    ///
    /// # Errors
    /// - [`AcquireError::TimedOut`] at the [time limit](InterlockBuilder::acquire_timeout).
    /// - [`AcquireError::Deadlock`] at once, if the call would wait for itself: in a permit block while this thread is
    ///   in another execution, a load or an unload; and in a task that misses its share.
    #[track_caller]
    #[inline]
    pub fn run<R>(&self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> Result<R, AcquireError> {
        let caller = Caller::thread(self.0.acquire_timeout);
        let (mut running, step) = self.0.begin(&caller)?;
        if step == Step::Wait {
            now(running.wait(caller))?;
        }
        let _within = running.frame().enter();
        Ok(f(&mut running))
    }
    /// Calls an asynchronous body as [`run`](Self::run) does, on any runtime. The body is in the execution whenever
    /// it is polled, on any thread.
    ///
    /// # Cancel safety
    /// A dropped future ends the execution.
    #[track_caller]
    pub fn run_async<R, F>(&self, f: F) -> impl Future<Output = Result<R, AcquireError>>
    where
        F: AsyncFnOnce(&mut Running<'_>) -> R,
    {
        let caller = Caller::task(self.0.acquire_timeout);
        async move {
            let mut running = self.0.enter(caller).await?;
            let frame = running.frame();
            Ok(scoped(|| frame.enter(), async { f(&mut running).await }).await)
        }
    }
    /// Calls `f` once no other execution runs, loads, waits to load, or is in a permit block.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`]. [`AcquireError::Deadlock`] inside an execution or a permit block on this thread.
    #[track_caller]
    pub fn unload<R>(&self, f: impl FnOnce(&mut Unloading<'_>) -> R) -> Result<R, AcquireError> {
        let caller = Caller::thread(self.0.acquire_timeout);
        now(self.unload_by(caller, async move |unloading: &mut Unloading<'_>| f(unloading)))
    }
    /// Unloads as [`unload`](Self::unload) does, in a future for any runtime.
    ///
    /// # Cancel safety
    /// A dropped future ends the wait or the section.
    #[track_caller]
    pub fn unload_async<R, F>(&self, f: F) -> impl Future<Output = Result<R, AcquireError>>
    where
        F: AsyncFnOnce(&mut Unloading<'_>) -> R,
    {
        let caller = Caller::task(self.0.acquire_timeout);
        self.unload_by(caller, f)
    }
    async fn unload_by<R>(
        &self,
        caller: Caller,
        f: impl AsyncFnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        if let Some((around, _)) = ambient::innermost(self.0.address()) {
            return Err(self.0.deadlock(around, transitions::NESTED, caller.at));
        }
        let mut running = self.0.enter(caller).await?;
        let mut held = running.hold(Purpose::Unload, caller).await?;
        let frame = held.frame();
        let mut unloading = held.unloading();
        // The execution ends with the section, so it needs no turn after others.
        Ok(scoped(|| frame.enter(), async { f(&mut unloading).await }).await)
    }

    /// Returns all executions at one moment: their threads, their waits, and what blocks them.
    ///
    /// Takes O(n), and the lock only to copy. It can be called from a helper thread while all other threads hang.
    pub fn dump(&self) -> Dump {
        self.0.dump()
    }
    /// Returns how many unloads there were.
    pub fn generation(&self) -> u64 {
        self.0.state.look(|state| state.generation)
    }

    /// Returns the time limit of a caller without one of its own.
    pub(crate) fn acquire_timeout(&self) -> Option<Duration> {
        self.0.acquire_timeout
    }
    /// Returns the clock of its waits.
    pub(crate) fn clock(&self) -> &Clock {
        self.0.state.clock()
    }
    /// Begins an execution, which then may have to [wait](Running::wait).
    #[inline]
    pub(crate) fn begin<'s>(&self, caller: &Caller) -> Result<(Running<'s>, Step), AcquireError> {
        self.0.begin(caller)
    }
    /// Begins an execution, and waits for its share.
    pub(crate) async fn enter_by<'s>(&self, caller: Caller) -> Result<Running<'s>, AcquireError> {
        self.0.enter(caller).await
    }
    pub(crate) fn reload_state(&self) -> &ReloadState {
        &self.0.reload
    }
    pub(crate) fn has(&self, running: &Running<'_>) -> bool {
        Arc::ptr_eq(&self.0, &running.home)
    }
    /// Returns whether this thread is in an execution or a permit block of this interlock.
    pub(crate) fn is_inside(&self) -> bool {
        ambient::innermost(self.0.address()).is_some()
    }
}

impl Default for Interlock {
    fn default() -> Self {
        Interlock::new()
    }
}

opaque!(Interlock);

/// Builds an [`Interlock`].
///
/// ```
/// use cabrank::Interlock;
/// use std::time::Duration;
///
/// let interlock = Interlock::builder().acquire_timeout(Duration::from_secs(30)).build();
/// # drop(interlock);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it builds"]
pub struct InterlockBuilder {
    clock: Clock,
    acquire_timeout: Option<Duration>,
}

impl InterlockBuilder {
    /// Sets the clock of time limits and ages. The default is the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Limits each wait: to enter, to load or unload, for the end of others' turns, and for the share after a permit
    /// block. The default is no limit.
    ///
    /// The limits of tasks are kept by one thread, which starts with the first such wait.
    pub fn acquire_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.acquire_timeout = limit.into();
        self
    }
    /// Builds the interlock.
    pub fn build(self) -> Interlock {
        let inner = Arc::new(Inner {
            state: Lock::new(State::default(), self.clock),
            quiet: AtomicBool::new(true),
            acquire_timeout: self.acquire_timeout,
            reload: ReloadState::default(),
            timer: OnceLock::new(),
        });
        let listener: Weak<Inner> = Arc::downgrade(&inner);
        inner.state.clock().add_listener(listener);
        Interlock(inner)
    }
}
