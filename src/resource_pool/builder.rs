//! Builds a pool.

use super::drives::Drives;
use super::event::Event;
use super::factory::{Async, AsyncResourceFactory, Form, ResourceFactory};
use super::inner::{Inner, Listener};
use super::keys::THE_KEY;
use super::options::{BuildError, LendOrder, Limits, Options, WhenExhausted, number};
use super::pool::{Keyed, Pool};
use super::slot::{Shared, Sub};
use super::state::{CLASSES, State};
use crate::clock::{Clock, ClockListener, Span};
use crate::collections::indexed_heap::IndexedHeap;
use crate::collections::slab_list::List;
use crate::collections::wait_queue::{Queue, Waiters};
use crate::periodic_executor::Runtime;
use crate::section::{Guarded, Lock};
use crate::user_code::UserValue;
use slab::Slab;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Builds a [`ResourcePool`](super::ResourcePool) or a [`KeyedResourcePool`](super::KeyedResourcePool); `P` says which.
///
/// ```
#[doc = include_str!("example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// use cabrank::resource_pool::LendOrder;
/// use std::time::Duration;
///
/// let pool = ResourcePool::builder(Connections, "db.example")
///     .max_active(16)
///     .max_total(None) // no limit
///     .max_idle_time(Duration::from_secs(60))
///     .lend_order(LendOrder::OldestFirst)
///     .test_on_borrow(true)
///     .build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a pool is built by `build`"]
pub struct Builder<F: Form, P> {
    factory: F,
    metadata: Option<F::Metadata>,
    limits: Limits,
    options: Options,
    listener: Option<Listener<F>>,
    clock: Clock,
    /// `None`: true if there can be one.
    maintenance: Option<bool>,
    builds: PhantomData<fn() -> P>,
}

impl<F: Form, P> Builder<F, P> {
    pub(super) fn new(factory: F, metadata: Option<F::Metadata>) -> Self {
        Builder {
            factory,
            metadata,
            limits: Limits::default(),
            options: Options::default(),
            listener: None,
            clock: Clock::monotonic(),
            maintenance: None,
            builds: PhantomData,
        }
    }

    /// Limits how many resources of each key are lent at once. Default: as many as `max_total` and `max_total_per_key`
    /// allow, or 8 if neither is set.
    pub fn max_active(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_active = number(limit.into());
        self.limits.max_active_is_set = true;
        self
    }
    /// Limits how many resources of all keys exist at once: lent, idle, being created or being destroyed. Default: no
    /// limit.
    ///
    /// Only abandoned resources whose place was given to others (`remove_abandoned`) do not count.
    pub fn max_total(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_total = number(limit.into());
        self
    }
    /// Limits how many resources of each key are idle. A resource that is returned beyond that is destroyed. Default:
    /// as many as `max_active`.
    pub fn max_idle(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_idle = Some(number(limit.into()));
        self
    }
    /// Sets how many resources of each key are kept idle. Default: 0.
    ///
    /// They may be lent. The pool then creates others in the background, not on the borrower's time. In a keyed pool
    /// the minimum of a key holds once one of its resources was created, while any is left: see the
    /// [limits](super#limits).
    pub fn min_idle(mut self, number: usize) -> Self {
        self.limits.min_idle = number;
        self
    }
    /// Sets what a borrower does when `max_active` is reached. Default: it waits.
    pub fn when_exhausted(mut self, action: WhenExhausted) -> Self {
        self.options.when_exhausted = action;
        self
    }
    /// Limits how long [`borrow`](super::ResourcePool::borrow) waits. Default: no limit.
    ///
    /// A pool with an asynchronous factory refuses this option: its futures may be dropped at any time.
    pub fn max_wait(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_wait = time.into();
        self
    }
    /// Sets whether a new resource is tested. Default: no.
    pub fn test_on_create(mut self, test: bool) -> Self {
        self.options.test_on_create = test;
        self
    }
    /// Sets whether an idle resource is tested before it is lent. Default: no.
    pub fn test_on_borrow(mut self, test: bool) -> Self {
        self.options.test_on_borrow = test;
        self
    }
    /// Sets whether a resource is tested when it is returned. Default: no.
    pub fn test_on_return(mut self, test: bool) -> Self {
        self.options.test_on_return = test;
        self
    }
    /// Sets whether idle resources are tested, once in each `eviction_interval`. Default: no.
    pub fn test_while_idle(mut self, test: bool) -> Self {
        self.options.test_while_idle = test;
        self
    }
    /// Sets which idle resource is lent first. Default: the one that was returned last.
    pub fn lend_order(mut self, order: LendOrder) -> Self {
        self.options.lend_order = order;
        self
    }
    /// Sets whether borrowers are served in the order of their arrival. Default: yes.
    ///
    /// If not, a newcomer may take what is free before the waiter that was woken for it. The pool then lends more per
    /// second, and some waiters wait longer. A waiter loses at most eight such races: then it is served before all
    /// newcomers. A task that was woken and is not polled keeps the next one waiting: see the [limits](super#limits).
    pub fn fair(mut self, fair: bool) -> Self {
        self.options.fair = fair;
        self
    }
    /// Limits how long a resource is idle, also below `min_idle`. It is destroyed then. Default: no limit.
    pub fn max_idle_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_idle_time = time.into();
        self
    }
    /// Limits how long a resource is idle while more than `min_idle` are. Default: no limit.
    pub fn soft_max_idle_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.soft_max_idle_time = time.into();
        self
    }
    /// Limits how long a resource lives, from the beginning of its creation. Default: no limit.
    ///
    /// An idle resource is destroyed then, a borrowed one when it is returned.
    pub fn max_lifetime(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_lifetime = time.into();
        self
    }
    /// Shortens each lifetime by up to this time, so that resources that were created together do not expire
    /// together. Default: zero. The steps are sixteenths, in turn.
    pub fn lifetime_jitter(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.lifetime_jitter = time.into();
        self
    }
    /// Makes the pool look at idle resources once in each interval, for idle times and tests. Default: at the exact
    /// due time.
    ///
    /// Lifetimes always end exactly.
    pub fn eviction_interval(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.eviction_interval = time.into();
        self
    }
    /// Limits how many idle resources the pool evicts, and tests, in each `eviction_interval`. Default: no limit.
    pub fn evictions_per_run(mut self, number: impl Into<Option<usize>>) -> Self {
        self.options.evictions_per_run = number.into();
        self
    }
    /// Sets after what time the listener is notified that a resource is still lent. Default: never.
    ///
    /// Only the borrower's time counts, from the loan to the return. The time of the factory before and after it does
    /// not.
    pub fn abandoned_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.abandoned_after = time.into();
        self
    }
    /// Sets whether the place of an abandoned resource is given to others. Default: no.
    ///
    /// The resource counts for no limit from then on, and is destroyed if it is ever returned.
    pub fn remove_abandoned(mut self, remove: bool) -> Self {
        self.options.remove_abandoned = remove;
        self
    }
    /// Limits how long a creation takes, by the runtime's timer. Default: 30 seconds.
    ///
    /// The limit holds for every creation, also for one that [goes on](super#creations) without its borrower. It needs
    /// a runtime: only [`build_on`](Self::build_on) accepts it. With a manual clock there is no limit.
    pub fn create_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.create_timeout = time.into();
        self
    }
    /// Sets a listener for failures that are no borrower's error, with the metadata (or key) they concern.
    ///
    /// The pool calls it without its lock, on whatever thread notices the failure.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// let pool = ResourcePool::builder(Connections, "db.example")
    ///     .listener(|address, event| eprintln!("{address}: {event:?}"))
    ///     .build()?;
    /// # drop(pool);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listener(
        mut self,
        listener: impl Fn(&F::Metadata, &Event<F::Error>) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }
    /// Sets the clock. Default: the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Sets whether a thread, or with `build_on` a task, does the maintenance. Default: yes, if there can be one.
    ///
    /// It starts if the options give it work. Without it, [`maintain`](Pool::maintain) does the work.
    pub fn maintenance(mut self, maintenance: bool) -> Self {
        self.maintenance = Some(maintenance);
        self
    }

    /// Returns an option that gives the maintenance work.
    fn work(&self) -> Option<&'static str> {
        let options = &self.options;
        let work = [
            ("min_idle", self.limits.min_idle > 0),
            ("max_idle_time", options.max_idle_time.is_some()),
            ("soft_max_idle_time", options.soft_max_idle_time.is_some()),
            ("max_lifetime", options.max_lifetime.is_some()),
            ("abandoned_after", options.abandoned_after.is_some()),
            ("test_while_idle", options.test_while_idle),
        ];
        work.into_iter().find(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    fn inner(self) -> Result<Arc<Inner<F>>, BuildError> {
        let Builder { factory, metadata, mut limits, options, listener, clock, .. } = self;
        limits.follow();
        limits.check_build()?;
        options.check()?;
        let timed = options.keep_times();
        let next_run = options.eviction_interval.map(|interval| clock.now().plus(interval));
        let mut subs = Slab::new();
        if let Some(metadata) = metadata {
            subs.insert(Sub::only(Shared::new(UserValue::new(metadata))));
        }
        let state = State {
            slots: Slab::new(),
            subs,
            keys: HashMap::default(),
            keys_created: 0,
            waiters: Waiters::default(),
            closing: Queue::default(),
            line: IndexedHeap::default(),
            waiting: 0,
            creating: 0,
            retrying: 0,
            total: 0,
            active: 0,
            idle: 0,
            tested: 0,
            leaving: 0,
            by_age: List::new(),
            orphans: List::new(),
            lives: [const { List::new() }; CLASSES],
            lent: List::new(),
            turns: List::new(),
            below_minimum: List::new(),
            backing_off: IndexedHeap::default(),
            spare: IndexedHeap::default(),
            times_idle: 0,
            limits,
            resized: false,
            max_idle_time: options.max_idle_time.map(Span::new),
            soft_max_idle_time: options.soft_max_idle_time.map(Span::new),
            abandoned_after: options.abandoned_after.map(Span::new),
            lifetimes: options.max_lifetime.map(|most| {
                let jitter = options.lifetime_jitter.unwrap_or_default();
                let step = jitter / CLASSES as u32;
                std::array::from_fn(|class| Span::new(most - step * class as u32))
            }),
            options: options.clone(),
            timed,
            clock: clock.clone(),
            epoch: 0,
            serials: 0,
            closed: false,
            sleeps_until: [None; 2],
            next_run: [next_run; 2],
        };
        let inner = Arc::new_cyclic(|me| Inner {
            factory: Arc::new(UserValue::new(factory)),
            state: Lock::new(state, clock.clone()),
            options,
            listener: listener.map(UserValue::new),
            hasher: foldhash::fast::RandomState::default(),
            maintenance: OnceLock::new(),
            runtime: OnceLock::new(),
            me: me.clone(),
        });
        let tick: Weak<dyn ClockListener> = Arc::downgrade(&inner) as Weak<dyn ClockListener>;
        clock.add_listener(tick);
        if limits.min_idle > 0 {
            inner.critical(|state, fx| {
                if !state.subs.is_empty() {
                    state.watch_minimum(THE_KEY, fx);
                }
            });
        }
        Ok(inner)
    }
}

/// Opens the maintenance if the options give it work, so that the builder's caller gets the error.
fn open_maintenance<F: Form, K>(
    inner: Arc<Inner<F>>,
    has_work: bool,
) -> Result<Pool<F, K>, BuildError> {
    if has_work {
        inner.open_maintenance().map_err(BuildError::Maintenance)?;
    }
    Ok(Pool::of(inner))
}

impl<F: ResourceFactory, K> Builder<F, Pool<F, K>> {
    /// Builds the pool.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use cabrank::resource_pool::BuildError;
    ///
    /// let refused = ResourcePool::builder(Connections, "db.example").max_active(2).min_idle(3).build();
    /// assert!(matches!(refused, Err(BuildError::Above { .. })));
    /// ```
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build(self) -> Result<Pool<F, K>, BuildError> {
        self.options.check_without_runtime("build")?;
        let (maintenance, has_work) = (self.maintenance, self.work().is_some());
        let inner = self.inner()?;
        if maintenance != Some(false) {
            inner.maintain_by_thread();
        }
        open_maintenance(inner, has_work)
    }
}

impl<F: AsyncResourceFactory, K> Builder<Async<F>, Pool<Async<F>, K>> {
    /// Builds the pool without a runtime. With `maintenance(false)`, callers of
    /// [`maintain_async`](Pool::maintain_async) do its maintenance. Without it, options that need maintenance are
    /// refused.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build_async(self) -> Result<Pool<Async<F>, K>, BuildError> {
        if self.maintenance == Some(true) {
            let why = "there is no runtime for it; `build_on` takes one";
            let (option, with) = ("maintenance(true)", "build_async");
            return Err(BuildError::NotWith { option, with, why });
        }
        if let Some(option) = self.work().filter(|_| self.maintenance.is_none()) {
            let why = "it needs a runtime; `build_on` takes one, and with `maintenance(false)` call `maintain_async`";
            return Err(BuildError::NotWith { option, with: "build_async", why });
        }
        self.options.check_async()?;
        self.options.check_without_runtime("build_async")?;
        self.inner().map(Pool::of)
    }

    /// Builds the pool. A task on `runtime` does its maintenance.
    ///
    /// A creation whose borrower has left goes on there: see [creations](super#creations).
    ///
    /// If the runtime has ended, the pool reports [`Event::MaintenanceNotStarted`] once. It then drops creations that
    /// are left, evicts what a borrower finds expired, and refills nothing. If the runtime's timer panics, the pool
    /// reports [`Event::MaintenanceNotStarted`]. It then does what is due when something else becomes due.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build_on(self, runtime: impl Runtime) -> Result<Pool<Async<F>, K>, BuildError> {
        if self.maintenance == Some(false) {
            let why = "the runtime is for it; `build_async` needs none";
            let (option, with) = ("maintenance(false)", "build_on");
            return Err(BuildError::NotWith { option, with, why });
        }
        self.options.check_async()?;
        let has_work = self.work().is_some();
        let inner = self.inner()?;
        let runtime = Arc::new(UserValue::new(runtime));
        inner.runtime.get_or_init(|| Drives::new(runtime.clone()));
        inner.maintain_by_task(runtime);
        open_maintenance(inner, has_work)
    }
}

impl<F: Form, K> Builder<F, Pool<F, Keyed<K>>> {
    /// Limits how many resources of one key exist at once. Default: no limit.
    ///
    /// A resource counts from the beginning of its creation to the end of its destruction, also while it is evicted for
    /// another key.
    pub fn max_total_per_key(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_total_per_key = number(limit.into());
        self
    }
}

impl<F: Form, P> fmt::Debug for Builder<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("limits", &self.limits)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
