//! The real pools on a manual clock, with a factory whose calls end as the history says.

use crate::refinement::factory::{Factory, Scripted, Tasks};
use crate::refinement::history::{Limit, World};
use crate::refinement::runtime::{LIMIT, OVERDUE, Orders};
use cabrank::ManualClock;
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, KeyedResourcePool, LendOrder, ResourcePool, Snapshot,
    WhenExhausted,
};
use cabrank_spec::resource_pool::state;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

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
pub(crate) type Task<T> = Pin<Box<dyn Future<Output = T> + Send>>;

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
            .test_while_idle($world.test_while_idle);
        // With a manual clock there are no timers.
        if !options.creates {
            builder = builder.clock($clock);
        }
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
            true => {
                let builder = $builder.max_creating($world.options.max_creating.0);
                let builder = builder.create_timeout(LIMIT).overdue_after(OVERDUE).max_wait(LIMIT);
                builder.build_on($orders.clone())
            }
            false => $builder.maintenance(false).build_async(),
        }
    };
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
