//! Builds a pool.

use super::event::Event;
use super::factory::{Async, AsyncResourceFactory, Form, ResourceFactory};
use super::handles::{Keyed, Pool};
use super::keys::THE_KEY;
use super::options::{BuildError, LendOrder, Limits, Options, WhenExhausted, number};
use super::pool::{Inner, Listener};
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
#[must_use = "a pool is built by `build`"]
pub struct Builder<F: Form, P> {
    factory: F,
    metadata: Option<F::Metadata>,
    limits: Limits,
    options: Options,
    listener: Option<Listener<F>>,
    clock: Clock,
    /// Absent: as if it was true.
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

    /// How many are lent at once, of each key. Default: 8.
    pub fn max_active(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_active = number(limit.into());
        self
    }
    /// How many there are at once, lent, idle, being made and being destroyed, of all keys. Holds
    /// whatever else is said, but that removed abandoned ones (`remove_abandoned`) count no more. Default: no
    /// limit.
    pub fn max_total(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_total = number(limit.into());
        self
    }
    /// How many idle ones are kept, of each key: what comes back beyond that is destroyed. Default: as
    /// many as `max_active`.
    pub fn max_idle(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_idle = Some(number(limit.into()));
        self
    }
    /// How many idle ones are kept ready, of each key: they may be lent, and others are then made in the
    /// background, not on the borrower's time. With keys, that goes for each of which one has been made, while
    /// any of it is left: see the [limits](super#limits). Default: 0.
    pub fn min_idle(mut self, number: usize) -> Self {
        self.limits.min_idle = number;
        self
    }
    /// What a borrower meets where `max_active` is reached. Default: it waits.
    pub fn when_exhausted(mut self, action: WhenExhausted) -> Self {
        self.options.when_exhausted = action;
        self
    }
    /// How long [`borrow`](super::ResourcePool::borrow) waits at most; not for an asynchronous factory, whose pool is
    /// borrowed from by futures, which may be dropped at any time. Default: without end.
    pub fn max_wait(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_wait = time.into();
        self
    }
    /// Whether what has just been made is tested. Default: no.
    pub fn test_on_create(mut self, test: bool) -> Self {
        self.options.test_on_create = test;
        self
    }
    /// Whether an idle one is tested before it is lent. Default: no.
    pub fn test_on_borrow(mut self, test: bool) -> Self {
        self.options.test_on_borrow = test;
        self
    }
    /// Whether what comes back is tested. Default: no.
    pub fn test_on_return(mut self, test: bool) -> Self {
        self.options.test_on_return = test;
        self
    }
    /// Whether idle ones are tested while they are idle, at each `eviction_interval`. Default: no.
    pub fn test_while_idle(mut self, test: bool) -> Self {
        self.options.test_while_idle = test;
        self
    }
    /// Sets which idle resource is lent first. Default: the one that was returned last.
    pub fn lend_order(mut self, order: LendOrder) -> Self {
        self.options.lend_order = order;
        self
    }
    /// Whether borrowers are served in the order of their arrival. If not, a newcomer may take what is
    /// free before who was woken for it gets there: more is lent per second, and some wait for long. And a
    /// task that is woken and not polled keeps the next one waiting: see the [limits](super#limits).
    /// Default: yes.
    pub fn fair(mut self, fair: bool) -> Self {
        self.options.fair = fair;
        self
    }
    /// How long one may be idle: then it is destroyed, also below `min_idle`. Default: without end.
    pub fn max_idle_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_idle_time = time.into();
        self
    }
    /// How long one may be idle while there are more idle ones than `min_idle`: the source's
    /// `max_idle_time`. Default: without end.
    pub fn soft_max_idle_time(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.soft_max_idle_time = time.into();
        self
    }
    /// How long a resource is used, from when it began to be made: then it is destroyed, if it is lent,
    /// when it comes back. Default: without end.
    pub fn max_lifetime(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_lifetime = time.into();
        self
    }
    /// Up to so much is taken off `max_lifetime`, in steps of a sixteenth that go round, so that what was
    /// made at once does not end at once. Default: nothing.
    pub fn lifetime_jitter(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.lifetime_jitter = time.into();
        self
    }
    /// Looks at idle ones in runs that far apart, for the times for which they may be idle and for tests, rather
    /// than at the very time at which one is due. The end of a lifetime is always kept exactly.
    pub fn eviction_interval(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.eviction_interval = time.into();
        self
    }
    /// How many idle ones a run evicts, and tests, at most. Default: all.
    pub fn evictions_per_run(mut self, number: impl Into<Option<usize>>) -> Self {
        self.options.evictions_per_run = number.into();
        self
    }
    /// After what time the listener is told that a resource is still lent: its borrower's time, which begins when
    /// it is handed the resource and ends when it gives it back, not that in which it was made or tested, or is made
    /// ready to be lent again. Default: never.
    pub fn abandoned_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.abandoned_after = time.into();
        self
    }
    /// Whether the place of an abandoned resource is then given to others; the resource itself is
    /// destroyed if it ever comes back, and counts for no limit until then. Default: no.
    pub fn remove_abandoned(mut self, remove: bool) -> Self {
        self.options.remove_abandoned = remove;
        self
    }
    /// Is told of what goes wrong where no borrower can be, with the metadata (the key) it concerns. Called
    /// outside the lock, by whatever thread notices.
    pub fn listener(
        mut self,
        listener: impl Fn(&F::Metadata, &Event<F::Error>) + Send + Sync + 'static,
    ) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }
    /// Where it gets its time from. Default: the system's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }
    /// Whether a thread, or with `build_on` a task, does what is due at a time, if the options have anything
    /// due. Without it, [`maintain`](Pool::maintain) does. Default: yes, if there can be one.
    pub fn maintenance(mut self, maintenance: bool) -> Self {
        self.maintenance = Some(maintenance);
        self
    }

    /// Whether anything is due at a time.
    fn has_work(&self) -> bool {
        let options = &self.options;
        self.limits.min_idle > 0
            || options.max_idle_time.is_some()
            || options.soft_max_idle_time.is_some()
            || options.max_lifetime.is_some()
            || options.abandoned_after.is_some()
            || options.test_while_idle
    }

    fn inner(self) -> Result<Arc<Inner<F>>, BuildError> {
        let Builder { factory, metadata, limits, options, listener, clock, .. } = self;
        limits.check()?;
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
            retrying: 0,
            total: 0,
            active: 0,
            idle: 0,
            tested: 0,
            leaving: 0,
            by_age: List::new(),
            unfinished: List::new(),
            lives: [const { List::new() }; CLASSES],
            lent: List::new(),
            turns: List::new(),
            below_minimum: [List::new(), List::new()],
            backing_off: [IndexedHeap::default(), IndexedHeap::default()],
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
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build(self) -> Result<Pool<F, K>, BuildError> {
        let (maintenance, has_work) = (self.maintenance, self.has_work());
        let inner = self.inner()?;
        if maintenance != Some(false) {
            inner.maintain_by_thread();
        }
        open_maintenance(inner, has_work)
    }
}

impl<F: AsyncResourceFactory, K> Builder<Async<F>, Pool<Async<F>, K>> {
    /// Builds the pool without a runtime. Callers of [`maintain_async`](Pool::maintain_async) do its maintenance.
    ///
    /// # Errors
    /// Returns a [`BuildError`] that names the options that contradict each other.
    pub fn build_async(self) -> Result<Pool<Async<F>, K>, BuildError> {
        if self.maintenance == Some(true) {
            let why = "there is no runtime for it; `build_on` takes one";
            let (option, with) = ("maintenance(true)", "build_async");
            return Err(BuildError::NotWith { option, with, why });
        }
        self.options.check_async()?;
        self.inner().map(Pool::of)
    }

    /// Builds the pool. A task on `runtime` does its maintenance.
    ///
    /// If the runtime's timer panics, the pool reports [`Event::MaintenanceNotStarted`]. It then does what is due
    /// when something else becomes due.
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
        let has_work = self.has_work();
        let inner = self.inner()?;
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
