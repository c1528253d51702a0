//! The real pools on a manual clock, with a factory whose calls end as the history says.

use crate::refinement::history::{End, Limit, World};
use crate::shared::task;
use cabrank::ManualClock;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{
    AddError, Async, AsyncResourceFactory, BorrowError, Borrowed, KeyedResourcePool, LendOrder,
    ResourceFactory, ResourcePool, Snapshot, WhenExhausted,
};
use cabrank_spec::resource_pool::state;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The error of a scripted failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scripted;

/// The factory's script, and its record of the pool's calls.
#[derive(Default)]
pub(crate) struct Book {
    /// How the next calls end.
    ends: VecDeque<End>,
    made: u32,
    /// The destroyed resources.
    pub(crate) destroyed: Vec<u32>,
    destroy_panics: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Factory(Arc<Mutex<Book>>);

impl Factory {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The calls during `during` end like this.
    pub(crate) fn ending<R>(&self, ends: &[End], during: impl FnOnce() -> R) -> R {
        self.book().ends = ends.iter().copied().collect();
        let result = during();
        self.book().ends.clear();
        result
    }
    /// A call that ends at once; without a script it succeeds.
    fn call(&self) -> bool {
        let end = self.book().ends.pop_front();
        well(end.unwrap_or(End::Well))
    }
    /// A call that pends until its end is scripted.
    async fn awaited(&self) -> bool {
        let end = poll_fn(|_| match self.book().ends.pop_front() {
            Some(end) => Poll::Ready(end),
            None => Poll::Pending,
        });
        well(end.await)
    }
    fn made(&self) -> u32 {
        let mut book = self.book();
        book.made += 1;
        book.made
    }
    fn gone(&self, resource: u32) {
        let mut book = self.book();
        book.destroyed.push(resource);
        let panics = book.destroy_panics;
        drop(book);
        if panics {
            std::panic::resume_unwind(Box::new("scripted"));
        }
    }
}

fn well(end: End) -> bool {
    match end {
        End::Well => true,
        End::Badly => false,
        // Panics without calling the panic hook.
        End::Panic => std::panic::resume_unwind(Box::new("scripted")),
    }
}

fn or_error(well: bool) -> Result<(), Scripted> {
    if well { Ok(()) } else { Err(Scripted) }
}

impl ResourceFactory for Factory {
    type Resource = u32;
    type Metadata = usize;
    type Error = Scripted;
    fn create(&self, _: &usize) -> Result<u32, Scripted> {
        or_error(self.call()).map(|()| self.made())
    }
    fn destroy(&self, _: &usize, resource: u32) {
        self.gone(resource);
    }
    fn validate(&self, _: &usize, _: &mut u32) -> bool {
        self.call()
    }
    fn activate(&self, _: &usize, _: &mut u32) -> Result<(), Scripted> {
        or_error(self.call())
    }
    fn passivate(&self, _: &usize, _: &mut u32) -> Result<(), Scripted> {
        or_error(self.call())
    }
}

/// The same, asynchronous.
pub(crate) struct Tasks(Factory);

impl AsyncResourceFactory for Tasks {
    type Resource = u32;
    type Metadata = usize;
    type Error = Scripted;
    async fn create(&self, _: &usize) -> Result<u32, Scripted> {
        or_error(self.0.awaited().await).map(|()| self.0.made())
    }
    fn destroy(&self, _: &usize, resource: u32) {
        self.0.gone(resource);
    }
    async fn validate(&self, _: &usize, _: &mut u32) -> bool {
        self.0.awaited().await
    }
    async fn activate(&self, _: &usize, _: &mut u32) -> Result<(), Scripted> {
        or_error(self.0.awaited().await)
    }
    async fn passivate(&self, _: &usize, _: &mut u32) -> Result<(), Scripted> {
        or_error(self.0.awaited().await)
    }
}

/// A loan of either kind of pool.
pub(crate) enum Guard {
    OfThreads(Borrowed<'static, Factory>),
    OfTasks(Borrowed<'static, Async<Tasks>>),
}

macro_rules! guard {
    ($self:expr, $guard:ident => $does:expr) => {
        match $self {
            Guard::OfThreads($guard) => $does,
            Guard::OfTasks($guard) => $does,
        }
    };
}

impl Guard {
    pub(crate) fn resource(&self) -> u32 {
        guard!(self, guard => **guard)
    }
    pub(crate) fn invalidate(self) {
        guard!(self, guard => Borrowed::invalidate(guard));
    }
    pub(crate) fn detach(self) -> u32 {
        guard!(self, guard => Borrowed::detach(guard))
    }
    pub(crate) async fn put_back(self) {
        guard!(self, guard => Borrowed::put_back(guard).await);
    }
}

pub(crate) type Lent = Result<Guard, BorrowError<Scripted>>;
pub(crate) type Added = Result<(), AddError<Scripted>>;
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = T>>>;

#[derive(Clone)]
pub(crate) enum Pool {
    Threads(ResourcePool<Factory>),
    Tasks(ResourcePool<Async<Tasks>>),
    KeyedThreads(KeyedResourcePool<usize, Factory>),
    KeyedTasks(KeyedResourcePool<usize, Async<Tasks>>),
}

macro_rules! any {
    ($self:expr, $pool:ident => $does:expr) => {
        match $self {
            Pool::Threads($pool) => $does,
            Pool::Tasks($pool) => $does,
            Pool::KeyedThreads($pool) => $does,
            Pool::KeyedTasks($pool) => $does,
        }
    };
}

macro_rules! built {
    ($builder:expr, $world:expr, $clock:expr) => {{
        let World { bounds, options, .. } = $world;
        let mut builder = $builder;
        if !options.fair {
            builder = builder.fair(false);
        }
        let mut builder = builder
            .max_active(bounds.active)
            .max_total(bounds.total)
            .min_idle(bounds.min_idle)
            .when_exhausted(match options.when_exhausted {
                state::WhenExhausted::Fail => WhenExhausted::Fail,
                state::WhenExhausted::Block => WhenExhausted::Block,
                state::WhenExhausted::Grow => WhenExhausted::Grow,
            })
            .lend_order(match options.fifo {
                true => LendOrder::OldestFirst,
                false => LendOrder::NewestFirst,
            })
            .test_on_create($world.test_on_create)
            .test_on_borrow($world.test_on_borrow)
            .test_on_return($world.test_on_return)
            .test_while_idle($world.test_while_idle)
            .clock($clock);
        if let Some(idle) = bounds.idle {
            builder = builder.max_idle(idle);
        }
        if let Some(time) = $world.max_idle_time {
            builder = builder.max_idle_time(Duration::from_secs(time));
        }
        if let Some(time) = $world.soft_max_idle_time {
            builder = builder.soft_max_idle_time(Duration::from_secs(time));
        }
        if $world.test_while_idle {
            builder = builder.eviction_interval(Duration::from_secs(1));
        }
        if let Some(time) = $world.max_lifetime {
            builder = builder.max_lifetime(Duration::from_secs(time));
        }
        builder
    }};
}

macro_rules! on {
    ($builder:expr, $world:expr, $orders:expr) => {
        match $world.options.creates {
            true => $builder.max_creating($world.options.max_creating.0).build_on($orders.clone()),
            false => $builder.maintenance(false).build_async(),
        }
    };
}

/// A runtime that hands out the creations that the pool orders, and runs the destructions at once.
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<Vec<BoxFuture<()>>>>);

/// Returns the size of the task that destroys resources, which tells it from that of an order.
fn size_of_destroyer() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        let (factory, sizes) = (Factory::default(), Sizes::default());
        let pool = ResourcePool::builder(Async(Tasks(factory.clone())), 0);
        let pool = pool.build_on(sizes.clone()).expect("a valid pool");
        let adder = pool.clone();
        let mut adds = task::Task::new(async move { adder.add_async().await });
        let added = factory.ending(&[End::Well, End::Well], || adds.poll());
        assert_eq!(added, Some(Ok(())));
        drop(adds);
        pool.clear();
        let mut borrows = task::Task::new(async move { pool.borrow_async().await.map(drop) });
        assert!(borrows.poll().is_none());
        drop(borrows);
        let sizes = sizes.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let [destroyer, order] = sizes[..] else { panic!("two tasks, not {sizes:?}") };
        assert_ne!(order, destroyer, "they cannot be told apart");
        destroyer
    })
}

/// A runtime that notes the sizes of its tasks, and runs none.
#[derive(Clone, Default)]
struct Sizes(Arc<Mutex<Vec<usize>>>);

impl Runtime for Sizes {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        let mut sizes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.push(std::mem::size_of_val(&*task));
        drop(sizes);
        std::mem::forget(task);
    }
    fn sleep_until(&self, _: std::time::Instant) -> Self::Sleep {
        std::future::pending()
    }
}

impl Orders {
    pub(crate) fn take(&self) -> Vec<BoxFuture<()>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Runtime for Orders {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, mut task: BoxFuture<()>) {
        if std::mem::size_of_val(&*task) == size_of_destroyer() {
            let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_ready(), "a destruction awaits nothing here");
            return;
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
    fn sleep_until(&self, _: std::time::Instant) -> Self::Sleep {
        std::future::pending()
    }
}

impl Pool {
    pub(crate) fn new(world: &World) -> (Pool, Factory, ManualClock, Orders) {
        let (factory, manual) = (Factory::default(), ManualClock::new());
        let orders = Orders::default();
        factory.book().destroy_panics = world.destroy_panics;
        let per_key = world.bounds.per_key;
        let (calls, clock) = (factory.clone(), manual.clock());
        let valid = "a valid pool";
        let pool = match (world.keyed, world.tasks) {
            (false, false) => {
                let builder = ResourcePool::builder(calls, 0);
                let builder = built!(builder, world, clock).maintenance(false);
                Pool::Threads(builder.build().expect(valid))
            }
            (false, true) => {
                let builder = ResourcePool::builder(Async(Tasks(calls)), 0);
                let builder = built!(builder, world, clock);
                Pool::Tasks(on!(builder, world, orders).expect(valid))
            }
            (true, false) => {
                let builder = KeyedResourcePool::builder(calls).max_total_per_key(per_key);
                let builder = built!(builder, world, clock).maintenance(false);
                Pool::KeyedThreads(builder.build().expect(valid))
            }
            (true, true) => {
                let builder = KeyedResourcePool::builder(Async(Tasks(calls)));
                let builder = builder.max_total_per_key(per_key);
                let builder = built!(builder, world, clock);
                Pool::KeyedTasks(on!(builder, world, orders).expect(valid))
            }
        };
        (pool, factory, manual, orders)
    }

    /// A borrower's task.
    pub(crate) fn borrow(&self, key: usize, waits: bool) -> Task<Lent> {
        macro_rules! borrows {
            ($pool:expr, [$($key:expr)?], $guard:expr) => {{
                let pool = $pool.clone();
                Box::pin(async move {
                    let lent = match waits {
                        true => pool.borrow_async($($key)?).await,
                        false => pool.try_borrow_async($($key)?).await,
                    };
                    lent.map(|guard| $guard(Borrowed::into_owned(guard)))
                })
            }};
        }
        match self {
            Pool::Threads(pool) => borrows!(pool, [], Guard::OfThreads),
            Pool::Tasks(pool) => borrows!(pool, [], Guard::OfTasks),
            Pool::KeyedThreads(pool) => borrows!(pool, [&key], Guard::OfThreads),
            Pool::KeyedTasks(pool) => borrows!(pool, [&key], Guard::OfTasks),
        }
    }

    /// Borrows on this thread; `in_time` if it need not wait. Returns `None` if the pool has no such
    /// call.
    pub(crate) fn block(&self, key: usize, in_time: bool) -> Option<Lent> {
        let lent = match (self, in_time) {
            (Pool::Threads(pool), true) => pool.borrow(),
            (Pool::Threads(pool), false) => pool.borrow_timeout(Duration::ZERO),
            (Pool::KeyedThreads(pool), true) => pool.borrow(&key),
            (Pool::KeyedThreads(pool), false) => pool.borrow_timeout(&key, Duration::ZERO),
            (Pool::Tasks(_) | Pool::KeyedTasks(_), _) => return None,
        };
        Some(lent.map(|guard| Guard::OfThreads(Borrowed::into_owned(guard))))
    }

    pub(crate) fn add(&self, key: usize) -> Task<Added> {
        macro_rules! adds {
            ($pool:expr $(, $key:expr)?) => {{
                let pool = $pool.clone();
                Box::pin(async move { pool.add_async($($key)?).await })
            }};
        }
        match self {
            Pool::Threads(pool) => adds!(pool),
            Pool::Tasks(pool) => adds!(pool),
            Pool::KeyedThreads(pool) => adds!(pool, &key),
            Pool::KeyedTasks(pool) => adds!(pool, &key),
        }
    }

    pub(crate) fn maintain(&self) -> Task<()> {
        let pool = self.clone();
        Box::pin(async move {
            any!(&pool, pool => {
                pool.maintain_async().await;
            });
        })
    }

    pub(crate) fn retain(&self, odd: bool) {
        any!(self, pool => pool.retain(|_, resource| (*resource % 2 == 1) == odd));
    }
    pub(crate) fn clear(&self) {
        any!(self, pool => pool.clear());
    }
    pub(crate) fn clear_all(&self) {
        any!(self, pool => pool.clear_all());
    }
    pub(crate) fn close(&self) {
        any!(self, pool => pool.close());
    }
    pub(crate) fn snapshot(&self) -> Snapshot<usize> {
        any!(self, pool => pool.snapshot())
    }
    pub(crate) fn num_waiting(&self) -> usize {
        any!(self, pool => pool.num_waiting())
    }

    /// Returns whether the change was accepted, or `None` if the pool has no such limit.
    pub(crate) fn resize(&self, change: Limit) -> Option<bool> {
        let changed = match change {
            Limit::Active(number) => any!(self, pool => pool.set_max_active(number)),
            Limit::Total(number) => any!(self, pool => pool.set_max_total(number)),
            Limit::Idle(number) => any!(self, pool => pool.set_max_idle(number)),
            Limit::MinIdle(number) => any!(self, pool => pool.set_min_idle(number)),
            Limit::PerKey(number) => match self {
                Pool::KeyedThreads(pool) => pool.set_max_total_per_key(number),
                Pool::KeyedTasks(pool) => pool.set_max_total_per_key(number),
                Pool::Threads(_) | Pool::Tasks(_) => return None,
            },
        };
        Some(changed.is_ok())
    }
}
