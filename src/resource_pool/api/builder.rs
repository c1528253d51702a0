//! The options of a pool, set on its builder.

use super::event::Event;
use super::factory::Form;
use super::pool::{Keyed, Pool};
use crate::kernel::clock::Clock;
use crate::resource_pool::state::options::{LendOrder, Limits, Options, WhenExhausted, number};
use crate::resource_pool::work::inner::Listener;
use crate::resource_pool::work::observed::Observed;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// Builds a [`ResourcePool`](crate::resource_pool::ResourcePool) or a [`KeyedResourcePool`](crate::resource_pool::KeyedResourcePool); `P` says which.
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
    pub(crate) factory: F,
    pub(crate) metadata: Option<F::Metadata>,
    pub(crate) limits: Limits,
    pub(crate) options: Options,
    pub(crate) listener: Option<Listener<F>>,
    pub(crate) observed: Observed,
    pub(crate) clock: Clock,
    /// `None`: true if there can be one.
    pub(crate) maintenance: Option<bool>,
    pub(crate) builds: PhantomData<fn() -> P>,
}

impl<F: Form, P> Builder<F, P> {
    pub(crate) fn new(factory: F, metadata: Option<F::Metadata>) -> Self {
        Builder {
            factory,
            metadata,
            limits: Limits::default(),
            options: Options::default(),
            listener: None,
            observed: Observed::default(),
            clock: Clock::monotonic(),
            maintenance: None,
            builds: PhantomData,
        }
    }

    /// Limits how many resources of each key are lent at once. Default: as many as `max_total` and `max_total_per_key`
    /// allow, or 8 if neither is set. A limit above these is refused.
    ///
    /// A resource that the pool [creates](super::super#creations) is not lent yet. A key has at most as many loans and
    /// creations for its waiters as this limit; the minimum comes on top.
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
    /// as many as `max_active`. A limit above `max_total` or `max_total_per_key` is refused.
    ///
    /// With 0 the pool keeps no resource, and idle times have no effect.
    pub fn max_idle(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.limits.max_idle = Some(number(limit.into()));
        self
    }
    /// Sets how many resources of each key are kept idle. Default: 0.
    ///
    /// They may be lent. The pool then creates others in the background, not on the borrower's time. In a keyed pool
    /// the minimum of a key holds once one of its resources was created, while any is left: see the
    /// [limits](super::super#limits).
    pub fn min_idle(mut self, number: usize) -> Self {
        self.limits.min_idle = number;
        self
    }
    /// Sets what a borrower does when `max_active` is reached. Default: it waits.
    pub fn when_exhausted(mut self, action: WhenExhausted) -> Self {
        self.options.when_exhausted = action;
        self
    }
    /// Limits how long a borrow takes. Default: 30 seconds. `None` means no limit.
    ///
    /// - In a pool with a runtime ([`build_on`](Self::build_on)), the time is that of the whole borrow: the turn, the creation, the test
    ///   and the activation. It begins when the future first pends. At its end the future is dropped, and the borrower gets
    ///   [`BorrowError::TimedOut`](crate::resource_pool::BorrowError::TimedOut). With a manual clock there is no limit.
    /// - On a thread, the time begins when the borrower first waits for its turn or for a test, or when a resource fails. It ends the
    ///   wait, and lets the borrower try no other resource. It does not interrupt the factory: a `create` on the borrower's own thread may take
    ///   longer.
    /// - A pool of [`build_async`](Self::build_async) has no timer, so no limit, and refuses one: its futures may be dropped at any time.
    pub fn max_wait(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.max_wait = time.into();
        self.options.max_wait_is_set = true;
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
    /// second, and some waiters wait longer: a waiter that was woken 1,024 times, and came too late each time, is served
    /// before all newcomers. A task that was woken and is not polled keeps the next one waiting: see the
    /// [limits](super::super#limits).
    pub fn fair(mut self, fair: bool) -> Self {
        self.options.fair = fair;
        self
    }
    /// Changes how many races a waiter may lose, for models.
    #[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
    pub(crate) fn max_lost_races(mut self, races: u32) -> Self {
        self.options.max_lost_races = races;
        self
    }
    /// Limits how long a resource is idle, also below `min_idle`. It is destroyed then. Default: no limit.
    ///
    /// A time longer than `max_lifetime` has no effect.
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
    /// together. Default: zero.
    ///
    /// The steps are sixteenths. A pool of four uses three quarters of the time or more. The steps begin elsewhere in each pool,
    /// so that many processes with a pool each do not reconnect together.
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
    /// not. Without a listener and `remove_abandoned` this option has no effect.
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
    /// Limits how long a creation takes, by the runtime's timer. Default: 30 seconds. `None` means no limit.
    ///
    /// A creation that takes longer is dropped, and fails. The option needs a runtime: only [`build_on`](Self::build_on)
    /// accepts it. With a manual clock there is no limit.
    pub fn create_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.create_timeout = time.into();
        self.options.create_timeout_is_set = true;
        self
    }
    /// Sets after what time a creation is *overdue*: it may hang, so the pool begins another for the borrower that waits.
    /// Default: 1 second, or half of `create_timeout` if that is less.
    ///
    /// Where the limits leave no room for another, an overdue creation is dropped, once no borrower is left that waited when
    /// it began. So after an outage in which connects hung, a borrower waits for this time at most. A connect that takes
    /// longer than this may be begun twice. A time above half of `create_timeout` is refused. Only
    /// [`build_on`](Self::build_on) accepts this option. With a manual clock no creation is overdue.
    pub fn overdue_after(mut self, time: Duration) -> Self {
        self.options.overdue_after = Some(time);
        self
    }
    /// Limits how many resources of all keys the pool creates at the same time. Default: no limit.
    ///
    /// The oldest borrower goes first, whatever its key is. Overdue creations do not count, so that connects that hang keep no
    /// other key waiting. A borrow that does not wait, or that fails when the pool is exhausted, is refused at this limit.
    /// `add` is not limited. Only [`build_on`](Self::build_on) accepts this option.
    pub fn max_creating(mut self, limit: impl Into<Option<usize>>) -> Self {
        self.options.max_creating = number(limit.into());
        self
    }
    /// Limits how long a test takes, by the runtime's timer. Default: no limit.
    ///
    /// A resource whose test takes longer is destroyed, and its borrower gets another one. The listener is notified
    /// ([`Event::ValidateTimedOut`]). Only [`build_on`](Self::build_on) accepts this limit. With a manual clock there
    /// is no limit.
    pub fn validate_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.validate_timeout = time.into();
        self
    }
    /// Limits how long an activation takes, by the runtime's timer. Default: no limit.
    ///
    /// A resource whose activation takes longer is destroyed, and its borrower gets another one. If that resource is
    /// new, the borrower gets [`BorrowError::Activate`](crate::resource_pool::BorrowError::Activate). The listener is notified of the
    /// others ([`Event::ActivateFailed`] with [`Failure::TimedOut`](crate::resource_pool::Failure::TimedOut)). Only
    /// [`build_on`](Self::build_on) accepts this limit. With a manual clock there is no limit.
    pub fn activate_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.activate_timeout = time.into();
        self
    }
    /// Limits how long a passivation takes, by the runtime's timer. Default: no limit.
    ///
    /// A resource whose passivation takes longer is destroyed. The listener is notified
    /// ([`Event::PassivateFailed`] with [`Failure::TimedOut`](crate::resource_pool::Failure::TimedOut)). Only
    /// [`build_on`](Self::build_on) accepts this limit. With a manual clock there is no limit.
    pub fn passivate_timeout(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.options.passivate_timeout = time.into();
        self
    }
    /// Limits how long a destruction takes, by the runtime's timer. Default: 5 seconds.
    ///
    /// A destruction that takes longer is dropped, and the listener is notified ([`Event::DestroyTimedOut`]). Only
    /// [`build_on`](Self::build_on) accepts this limit. With a manual clock there is no limit.
    pub fn destroy_timeout(mut self, time: Duration) -> Self {
        self.options.destroy_timeout = Some(time);
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
    /// Names the pool, in its errors, and in metrics and traces: see [observation](super::super#observation). Default:
    /// no name, and no observation.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.observed = Observed::by_name(name.into());
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
