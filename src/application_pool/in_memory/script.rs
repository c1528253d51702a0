//! The script of a spawn, and the calls that a test may watch.

use std::num::NonZeroUsize;
use std::time::Duration;

/// The script of one spawn. Its constructors make it, and its methods refine it.
///
/// ```
/// use cabrank::in_memory::{InMemorySpawner, Spawn};
/// use std::time::Duration;
///
/// let spawner = InMemorySpawner::new();
/// // Each process of the shop takes 50 ms to start, and then two sessions at once.
/// spawner.always("/srv/shop", Spawn::ready().after(Duration::from_millis(50)).concurrency(2));
/// // The next spawn fails, of whatever application.
/// spawner.next(Spawn::fail("no database"));
/// ```
#[derive(Clone, Debug)]
pub struct Spawn {
    pub(super) end: End,
    pub(super) after: Duration,
    pub(super) held: bool,
    pub(super) concurrency: Option<NonZeroUsize>,
}

#[derive(Clone, Debug)]
pub(super) enum End {
    Ready,
    Fail(String),
    Hang,
    Panic,
}

impl Spawn {
    fn new(end: End) -> Self {
        Spawn { end, after: Duration::ZERO, held: false, concurrency: Some(NonZeroUsize::MIN) }
    }
    /// Gives a process, which takes one session at a time.
    pub fn ready() -> Self {
        Spawn::new(End::Ready)
    }
    /// Fails with this message.
    pub fn fail(message: impl Into<String>) -> Self {
        Spawn::new(End::Fail(message.into()))
    }
    /// Never ends by itself; fails when it is cancelled.
    pub fn hang() -> Self {
        Spawn::new(End::Hang)
    }
    /// Panics.
    pub fn panic() -> Self {
        Spawn::new(End::Panic)
    }
    /// Ends after this time on the spawner's clock. Fails when it is cancelled meanwhile.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }
    /// Ends after [`InMemorySpawner::release`](super::InMemorySpawner::release). Fails when it is cancelled meanwhile.
    #[must_use]
    pub fn held(mut self) -> Self {
        self.held = true;
        self
    }
    /// Sets how many sessions the process takes at once; `None`: any number. Default: one.
    ///
    /// # Panics
    /// Panics if `concurrency` is 0.
    #[must_use]
    pub fn concurrency(mut self, concurrency: impl Into<Option<usize>>) -> Self {
        let not_zero = |n| NonZeroUsize::new(n).expect("concurrency must not be zero");
        self.concurrency = concurrency.into().map(not_zero);
        self
    }
}

/// A call of user code by the pool; see [`InMemorySpawner::on_call`](super::InMemorySpawner::on_call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// [`Spawner::spawn`](crate::application_pool::Spawner::spawn).
    Spawn,
    /// [`Spawner::reload`](crate::application_pool::Spawner::reload).
    Reload,
    /// [`Process::connect`](crate::application_pool::Process::connect).
    Connect,
    /// [`Process::shut_down`](crate::application_pool::Process::shut_down).
    ShutDown,
    /// The process was dropped.
    DropProcess,
    /// A connection was dropped.
    DropConnection,
    /// The error of a spawn that failed was dropped, with its last clone.
    DropError,
}
