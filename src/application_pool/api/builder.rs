//! Builds a pool.

use super::error::{BuildError, not_zero};
use super::event::Event;
use super::pool::ApplicationPool;
use super::spawner::Spawner;
use super::totals::Totals;
use crate::application_pool::state::inactive_apps::InactiveApps;
use crate::application_pool::state::state::{Limits, State};
use crate::application_pool::work::inner::{Inner, Observer};
use crate::application_pool::work::restart_files::{LookUp, RestartFiles};
use crate::kernel::alarm::Alarm;
use crate::kernel::clock::{Clock, ClockListener, Span};
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::IndexedHeap;
use crate::kernel::collections::list::List;
use crate::kernel::collections::rank_list::RankList;
use crate::kernel::collections::touched::TouchedArena;
use crate::kernel::collections::wait_queue::Waiters;
use crate::kernel::section::Lock;
use crate::kernel::user_code::UserValue;
use foldhash::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime};

/// The settings of a new pool. See [`ApplicationPool::builder`].
///
/// ```
/// # use cabrank::{ApplicationPool, in_memory::InMemorySpawner};
/// use std::time::Duration;
///
/// let pool = ApplicationPool::builder(InMemorySpawner::new())
///     .max(8)
///     .max_per_app(4)
///     .max_idle_time(Duration::from_secs(60))
///     .build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "`build` makes the pool"]
pub struct Builder<S: Spawner> {
    spawner: S,
    max: usize,
    max_per_app: Option<usize>,
    max_idle_time: Option<Duration>,
    drain_timeout: Duration,
    max_draining: Option<usize>,
    back_off: (Duration, Duration),
    forget_groups_after: Option<Duration>,
    restart_files: Option<Box<LookUp>>,
    stat_throttle: Duration,
    observer: Option<Observer>,
    clock: Clock,
    cleaner: bool,
    spawner_stack_size: Option<usize>,
}

impl<S: Spawner> ApplicationPool<S> {
    /// Returns a builder of a pool whose processes `spawner` makes.
    ///
    /// ```
    /// use cabrank::in_memory::InMemorySpawner; // or your own `Spawner`
    /// use cabrank::ApplicationPool;
    ///
    /// let pool = ApplicationPool::builder(InMemorySpawner::new()).max(4).build()?;
    /// assert_eq!(pool.snapshot().max, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder(spawner: S) -> Builder<S> {
        Builder::new(spawner)
    }
}

impl<S: Spawner> Builder<S> {
    pub(super) fn new(spawner: S) -> Self {
        Builder {
            spawner,
            max: 6,
            max_per_app: None,
            max_idle_time: Some(Duration::from_secs(300)),
            drain_timeout: Duration::from_secs(60),
            max_draining: None,
            back_off: (Duration::from_secs(1), Duration::from_secs(30)),
            forget_groups_after: None,
            restart_files: None,
            stat_throttle: Duration::ZERO,
            observer: None,
            clock: Clock::monotonic(),
            cleaner: true,
            spawner_stack_size: None,
        }
    }

    /// Sets how many processes the pool may have. Default: 6.
    pub fn max(mut self, max: usize) -> Self {
        self.max = max;
        self
    }
    /// Sets how many processes one group may have. Default: no limit of its own, so as many as the pool.
    pub fn max_per_app(mut self, max_per_app: impl Into<Option<usize>>) -> Self {
        self.max_per_app = max_per_app.into();
        self
    }
    /// Sets for how long a process may be idle before it is shut down; `None`: for ever. Default: 300 s.
    pub fn max_idle_time(mut self, max_idle_time: impl Into<Option<Duration>>) -> Self {
        self.max_idle_time = max_idle_time.into();
        self
    }
    /// Sets for how long a detached process may finish its sessions before it is shut down all the same.
    /// Default: 60 s.
    ///
    /// In a full pool, a group without a process waits for another group's place at most as long. If no process has
    /// become idle by then, the pool detaches a busy one. Where `max_draining` allows no further process, it waits
    /// until that one is shut down.
    ///
    /// A group with processes, none of whose waiting gets was served for that time, gets the place of an idle process of
    /// another group, or of the first one that becomes idle. No busy process is detached for it.
    pub fn drain_timeout(mut self, drain_timeout: Duration) -> Self {
        self.drain_timeout = drain_timeout;
        self
    }
    /// Sets how many processes may live beyond [`max`](Self::max), because some are detached and finish their
    /// sessions, or are being replaced. At the bound, spawns wait. Default: as many as `max`. With 0, a rolling
    /// restart of a full pool cannot proceed.
    pub fn max_draining(mut self, max_draining: usize) -> Self {
        self.max_draining = Some(max_draining);
        self
    }
    /// Sets for how long a group does not spawn after a failed spawn: `first`, doubled with every
    /// failure in a row, at most `cap`. Default: 1 s and 30 s. A time below 10 ms counts as 10 ms.
    ///
    /// A process that fails soon after it was ready counts as a failed spawn: before it has lived for `cap`, or, if it
    /// has had a session, for `first`. Only the first such failure in a row is followed by a spawn at once.
    pub fn back_off(mut self, first: Duration, cap: Duration) -> Self {
        self.back_off = (first, cap);
        self
    }
    /// Sets for how long the pool keeps the record of a group without processes, spawns and gets; `None`, the default:
    /// until [`detach_group`](ApplicationPool::detach_group). For pools with many applications, most of them idle.
    ///
    /// The record holds the group's failures and its last look at the restart files. A group that returns after it was
    /// forgotten is a new one, and its code may have changed. The pool cannot tell it from a group that it never had. So
    /// with this option every group's first spawn asks the spawner to [reload](Spawner::reload).
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, ManualClock, PoolOptions, in_memory::InMemorySpawner};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let builder = ApplicationPool::builder(InMemorySpawner::new()).clock(time.clock());
    /// let hour = Duration::from_secs(3600);
    /// let pool = builder.cleaner(false).forget_groups_after(hour).build()?;
    ///
    /// drop(pool.get(&PoolOptions::new("/srv/shop"))?);
    /// time.advance(hour);
    /// pool.clean(); // shuts the idle process down
    /// time.advance(hour);
    /// pool.clean(); // forgets the group
    /// assert!(pool.snapshot().groups.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget_groups_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.forget_groups_after = time.into();
        self
    }
    /// Sets the function that looks up a file's time of modification. With it, each get looks at the restart files of
    /// its group. Without it, the default, the pool ignores restart files: it does no I/O of its own.
    ///
    /// The function may block. `get` and `try_get` call it on their own thread. For tasks, and for gets with a time
    /// limit, a thread of the pool calls it: such a get waits for the look until its deadline, its cancellation or
    /// `close`. So a file system that hangs holds up only the gets of its own groups. A get with a time limit of zero
    /// waits for no look: its group restarts when the look ends that it begins.
    /// [`stat_throttle`](Self::stat_throttle) spares most looks.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, in_memory::InMemorySpawner};
    /// # use std::path::Path;
    /// let builder = ApplicationPool::builder(InMemorySpawner::new())
    ///     .restart_files(|file: &Path| file.metadata()?.modified());
    /// # drop(builder);
    /// ```
    pub fn restart_files(
        mut self,
        look_up: impl Fn(&Path) -> io::Result<SystemTime> + Send + Sync + 'static,
    ) -> Self {
        self.restart_files = Some(Box::new(look_up));
        self
    }
    /// Sets for how long a look at the restart files is used again. Default: zero, every get looks.
    pub fn stat_throttle(mut self, throttle: Duration) -> Self {
        self.stat_throttle = throttle;
        self
    }
    /// Sets the observer of the pool's events. The pool calls it without its lock, on the thread that caused the event;
    /// it must not block for long.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, PoolOptions, in_memory::InMemorySpawner};
    /// # let pool = ApplicationPool::builder(InMemorySpawner::new()).build()?;
    /// # let shop = PoolOptions::new("/srv/shop");
    /// let (sender, events) = std::sync::mpsc::channel();
    /// let builder = ApplicationPool::builder(InMemorySpawner::new());
    /// let pool = builder.observer(move |event| _ = sender.send(event.clone())).build()?;
    /// drop(pool.get(&shop)?);
    /// println!("{:?}", events.recv()?); // Spawned { .. }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }
    /// Sets the clock. Default: the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Sets whether the pool has a cleaner thread. Default: yes. Without it, call
    /// [`ApplicationPool::clean`].
    pub fn cleaner(mut self, cleaner: bool) -> Self {
        self.cleaner = cleaner;
        self
    }
    /// Sets the stack size of spawner threads. Default: the system's.
    pub fn spawner_stack_size(mut self, bytes: usize) -> Self {
        self.spawner_stack_size = Some(bytes);
        self
    }

    /// Makes the pool, which begins without processes.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, in_memory::InMemorySpawner};
    /// let refused = ApplicationPool::builder(InMemorySpawner::new()).max(0).build();
    /// assert_eq!(refused.unwrap_err().to_string(), "max must not be zero");
    /// ```
    ///
    /// # Errors
    /// - [`BuildError::Zero`] if [`max`](Self::max), [`max_per_app`](Self::max_per_app) or
    ///   [`max_idle_time`](Self::max_idle_time) is zero.
    /// - [`BuildError::Cleaner`] if the cleaner's thread cannot be started.
    pub fn build(self) -> Result<ApplicationPool<S>, BuildError> {
        not_zero("max", Some(self.max))?;
        not_zero("max_per_app", self.max_per_app)?;
        not_zero("max_idle_time", self.max_idle_time)?;
        let limits = Limits {
            drain_timeout: self.drain_timeout,
            back_off: self.back_off,
            forget_groups_after: self.forget_groups_after,
        };
        let mut state = State::new(self.clock.clone(), limits);
        state.max = self.max;
        state.max_per_app = self.max_per_app;
        state.max_idle_time = self.max_idle_time.map(Span::new);
        state.max_draining = self.max_draining;
        let throttle = self.stat_throttle;
        let inner = Arc::new(Inner {
            spawner: UserValue::new(self.spawner),
            state: Lock::new(state, self.clock),
            restart_files: self.restart_files.map(|look_up| RestartFiles::new(look_up, throttle)),
            observer: self.observer.map(UserValue::new),
            spawner_stack_size: self.spawner_stack_size,
            cleaner: OnceLock::new(),
        });
        let weak: Weak<Inner<S>> = Arc::downgrade(&inner);
        inner.clock().add_listener(weak as Weak<dyn ClockListener>);
        if self.cleaner {
            inner.start_cleaner().map_err(BuildError::Cleaner)?;
        }
        Ok(ApplicationPool::from_inner(inner))
    }
}

impl<S: Spawner> State<S> {
    pub(crate) fn new(clock: Clock, limits: Limits) -> Self {
        State {
            clock,
            limits,
            groups: TouchedArena::new(),
            pool_touched: false,
            settled: Vec::new(),
            in_lines: 0,
            group_by_name: HashMap::default(),
            max: 0,
            max_per_app: None,
            count: 0,
            active: 0,
            inactive_apps: InactiveApps::default(),
            waiting: 0,
            waiters: Waiters::default(),
            max_idle_time: None,
            looking: HashMap::default(),
            processes: Arena::new(),
            by_identifier: HashMap::default(),
            next_identifier: 0,
            in_flight: HashMap::default(),
            reserved: 0,
            replacing: 0,
            draining: List::default(),
            max_draining: None,
            marked: None,
            first: List::default(),
            more: List::default(),
            minimum: List::default(),
            replacements: List::default(),
            capped: List::default(),
            by_surplus: RankList::default(),
            became_idle: 0,
            back_offs: 0,
            backing_off: IndexedHeap::default(),
            shrink_at: 0,
            unused: List::default(),
            closed: false,
            ends: Default::default(),
            disposing: 0,
            discarding: 0,
            cleaner: Alarm::default(),
            cleaner_runs: false,
            totals: Totals::default(),
            #[cfg(any(test, debug_assertions))]
            ceiling: 0,
            #[cfg(any(test, debug_assertions))]
            live_ceiling: 0,
        }
    }
}

impl<S: Spawner> fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("max", &self.max)
            .field("max_per_app", &self.max_per_app)
            .field("max_idle_time", &self.max_idle_time)
            .field("drain_timeout", &self.drain_timeout)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
