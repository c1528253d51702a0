//! Builds a pool from its options, with or without maintenance.

use super::build_error::BuildError;
use super::builder::Builder;
use super::factory::{Async, AsyncResourceFactory, Form, ResourceFactory};
use super::pool::Pool;
use crate::kernel::alarm::Alarm;
use crate::kernel::any_runtime::AnyRuntime;
use crate::kernel::clock::{ClockListener, Span};
use crate::kernel::collections::arena::Arena;
use crate::kernel::collections::indexed_heap::IndexedHeap;
use crate::kernel::collections::list::List;
use crate::kernel::collections::touched::TouchedArena;
use crate::kernel::collections::wait_queue::{Queue, Waiters};
use crate::kernel::origin::Origin;
use crate::kernel::runtime::{Runtime, SafeRuntime};
use crate::kernel::section::{Guarded, Lock};
use crate::kernel::user_code::UserValue;
use crate::resource_pool::state::names::Shared;
use crate::resource_pool::state::slot::Sub;
use crate::resource_pool::state::state::{CLASSES, State};
use crate::resource_pool::work::dying::Dying;
use crate::resource_pool::work::inner::Inner;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

impl<F: Form, P> Builder<F, P> {
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
        let Builder { factory, metadata, mut limits, options, listener, observed, clock, .. } =
            self;
        limits.follow();
        limits.check_build()?;
        options.check()?;
        let timed = options.keep_times();
        let options = Arc::new(options);
        // Pools that begin together, in many processes, differ by it.
        let random = std::hash::RandomState::new().hash_one(0);
        let next_run = options.eviction_interval.map(|interval| clock.now().plus(interval));
        let mut subs = TouchedArena::new();
        if let Some(metadata) = metadata {
            subs.insert(Sub::only(Shared::new(UserValue::new(metadata))));
        }
        let state = State {
            slots: Arena::new(),
            subs,
            lined: VecDeque::new(),
            came: None,
            keys: HashMap::default(),
            shrink_at: 0,
            keys_created: 0,
            waiters: Waiters::default(),
            closing: Queue::default(),
            filling: Queue::default(),
            line: IndexedHeap::default(),
            to_order: IndexedHeap::default(),
            waiting: 0,
            retrying: 0,
            total: 0,
            active: 0,
            idle: 0,
            tested: 0,
            leaving: 0,
            by_age: List::new(),
            creates: false,
            creating: 0,
            overdue: 0,
            dropping: 0,
            giving_way: IndexedHeap::default(),
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
            lifetimes: options
                .max_lifetime
                .map(|most| spread(most, options.lifetime_jitter.unwrap_or_default(), random)),
            first_class: (random >> 32) as usize,
            options: options.clone(),
            timed,
            keeps_up: true,
            clock: clock.clone(),
            epoch: 0,
            serials: 0,
            closed: false,
            alarms: [Alarm::default(); 2],
            next_run: [next_run; 2],
        };
        let inner = Arc::new_cyclic(|me| Inner {
            factory: Arc::new(UserValue::new(factory)),
            state: Lock::new(state, clock.clone()),
            options,
            listener: listener.map(UserValue::new),
            observed,
            dying: Dying::default(),
            hasher: foldhash::fast::RandomState::default(),
            maintenance: OnceLock::new(),
            runtime: OnceLock::new(),
            origin: Origin::here(),
            me: me.clone(),
        });
        let tick: Weak<dyn ClockListener> = Arc::downgrade(&inner) as Weak<dyn ClockListener>;
        clock.add_listener(tick);
        if limits.min_idle > 0 {
            // The one key of a pool without keys is below its minimum from the beginning.
            inner.critical(|_, _| ());
        }
        Ok(inner)
    }
}

/// Returns a lifetime for each class. The steps are sixteenths of the jitter, and begin within the first of them.
fn spread(most: Duration, jitter: Duration, random: u64) -> [Span; CLASSES] {
    const PARTS: u32 = 1024;
    let step = jitter / CLASSES as u32;
    let first = step / PARTS * (random as u32 % PARTS);
    std::array::from_fn(|class| Span::new(most - step * class as u32 - first))
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
    pub fn build(mut self) -> Result<Pool<F, K>, BuildError> {
        self.options.check_without_runtime("build")?;
        self.options.with_timer();
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
    /// A borrower that creates awaits its own resource: see [creations](super::super#creations).
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build_async(mut self) -> Result<Pool<Async<F>, K>, BuildError> {
        if self.maintenance == Some(true) {
            let why = "there is no runtime for it; `build_on` takes one";
            let (option, with) = ("maintenance(true)", "build_async");
            return Err(BuildError::NotWith { option, with, why });
        }
        if let Some(option) = self.work().filter(|_| self.maintenance.is_none()) {
            return Err(BuildError::needs_maintenance(option));
        }
        self.options.is_unmaintained = self.maintenance.is_none();
        self.options.check_without_timer("build_async")?;
        self.options.check_without_runtime("build_async")?;
        self.inner().map(Pool::of)
    }

    /// Builds the pool. Tasks on `runtime` create its resources, and do its maintenance. For tokio, pass
    /// `periodic_executor::Tokio` (feature `tokio`).
    ///
    /// The runtime has to be driven while a borrower waits: see [creations](super::super#creations).
    ///
    /// If the runtime has ended, borrowers create for themselves, and calls of the factory have no time limits. The pool
    /// evicts what a borrower finds expired, and refills nothing. It reports
    /// [`RuntimeEnded`](crate::resource_pool::Event::RuntimeEnded), and
    /// [`MaintenanceNotStarted`](crate::resource_pool::Event::MaintenanceNotStarted) if work was due. Each borrower that creates or
    /// waits asks the runtime again. Once it takes a task, the pool creates as before.
    ///
    /// If the runtime's timer panics, the pool reports both events once, and has no time limits from then on. It then does what is
    /// due when something else becomes due.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build_on(mut self, runtime: impl Runtime) -> Result<Pool<Async<F>, K>, BuildError> {
        if self.maintenance == Some(false) {
            let why = "the runtime is for it; `build_async` needs none";
            let (option, with) = ("maintenance(false)", "build_on");
            return Err(BuildError::NotWith { option, with, why });
        }
        self.options.with_runtime();
        let has_work = self.work().is_some();
        let inner = self.inner()?;
        let runtime = SafeRuntime::new(runtime);
        inner.runtime.get_or_init(|| AnyRuntime::new(runtime.clone()));
        inner.maintain_by_task(runtime);
        inner.critical(|state, _| state.runtime_is_back());
        open_maintenance(inner, has_work)
    }
}
