//! The pools side by side, each behind one of two small traits: its own way to borrow, and its own guard.
//!
//! Each is configured as its crate's documentation shows it, with one exception: validation and the reading of a
//! clock are off wherever they can be, because they are off by default in cabrank. The resources are free, so that
//! the benchmark measures the pool.

use crate::rounds::{Asynchronous, Blocking, Contender, Driver, Kind, Order, tasks, threads};
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, KeyedResourcePool, ResourceFactory,
    ResourcePool,
};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Every row of the table, with the order in which it serves waiters.
///
/// A pool with a queue of its own, or with a semaphore that grants in order, is fair. A condition variable or a
/// `Notify` wakes a waiter that may find the resource taken.
pub(crate) fn all() -> Vec<Contender> {
    use Driver::{Alone, Tokio};
    use Order::{Barging as Barges, FirstCome};
    vec![
        threads::<TwoLockPairs>(LIMIT, Kind::Limit, Barges),
        threads::<HandMade>(HAND_MADE, Kind::Blocking, Barges),
        threads::<ResourcePool<Free>>(POOL, Kind::Blocking, FirstCome),
        threads::<Barging>(BARGING, Kind::Blocking, Barges),
        threads::<KeyedResourcePool<u64, Free>>("cabrank, one key", Kind::Blocking, FirstCome),
        threads::<Timed>("cabrank, timed", Kind::Blocking, FirstCome),
        tasks::<ResourcePool<Async<Free>>>(TASKS, Alone, FirstCome),
        tasks::<BargingTasks>(BARGING_TASKS, Alone, Barges),
        tasks::<ResourcePool<Async<Free>>>("cabrank, tasks on tokio", Tokio, FirstCome),
        tasks::<ResourcePool<Async<Awaited>>>("cabrank, tasks that prepare", Alone, FirstCome),
        threads::<r2d2::Pool<Free>>("r2d2", Kind::Blocking, Barges),
        tasks::<deadpool::managed::Pool<Free>>("deadpool, managed", Alone, FirstCome),
        tasks::<deadpool::unmanaged::Pool<u64>>("deadpool, unmanaged", Alone, FirstCome),
        tasks::<bb8::Pool<Free>>("bb8", Tokio, Barges),
        tasks::<mobc::Pool<Free>>("mobc", Tokio, FirstCome),
        tasks::<Arc<asyncband::pool::bounded::Pool<Free>>>("asyncband", Alone, FirstCome),
    ]
}

pub(crate) const LIMIT: &str = "limit: two lock-unlock pairs";
pub(crate) const HAND_MADE: &str = "hand-made";
pub(crate) const POOL: &str = "cabrank";
pub(crate) const BARGING: &str = "cabrank, barging";
pub(crate) const TASKS: &str = "cabrank, tasks";
pub(crate) const BARGING_TASKS: &str = "cabrank, tasks, barging";

/// Whether it is one of the pools that Rust programs use.
pub(crate) fn is_peer(name: &str) -> bool {
    !name.starts_with(POOL) && name != LIMIT && name != HAND_MADE
}

/// No pool at all: a borrow and a return that are one empty critical section each.
pub(crate) struct TwoLockPairs(Mutex<u64>);

pub(crate) struct SecondPair<'a>(&'a Mutex<u64>);

impl Blocking for TwoLockPairs {
    type Guard<'a> = SecondPair<'a>;
    fn of(_: usize) -> Self {
        TwoLockPairs(Mutex::new(0))
    }
    fn borrow(&self) -> SecondPair<'_> {
        *black_box(&self.0).lock() += 1;
        SecondPair(&self.0)
    }
}

impl Drop for SecondPair<'_> {
    fn drop(&mut self) {
        *black_box(self.0).lock() += 1;
    }
}

/// The pool that one writes when there is no time to choose one.
pub(crate) struct HandMade {
    idle: Mutex<VecDeque<u64>>,
    returned: Condvar,
}

pub(crate) struct HandMadeGuard<'a> {
    pool: &'a HandMade,
    resource: u64,
}

impl Blocking for HandMade {
    type Guard<'a> = HandMadeGuard<'a>;
    fn of(size: usize) -> Self {
        HandMade { idle: Mutex::new((0..size as u64).collect()), returned: Condvar::new() }
    }
    fn borrow(&self) -> HandMadeGuard<'_> {
        let mut idle = self.idle.lock();
        loop {
            match idle.pop_back() {
                Some(resource) => return HandMadeGuard { pool: self, resource },
                None => self.returned.wait(&mut idle),
            }
        }
    }
}

impl Drop for HandMadeGuard<'_> {
    fn drop(&mut self) {
        self.pool.idle.lock().push_back(self.resource);
        self.pool.returned.notify_one();
    }
}

/// Creates free resources, for each of the pools.
pub(crate) struct Free;

impl ResourceFactory for Free {
    type Resource = u64;
    type Metadata = u64;
    type Error = Infallible;
    fn create(&self, _: &u64) -> Result<u64, Infallible> {
        Ok(0)
    }
}

impl AsyncResourceFactory for Free {
    type Resource = u64;
    type Metadata = u64;
    type Error = Infallible;
    async fn create(&self, _: &u64) -> Result<u64, Infallible> {
        Ok(0)
    }
}

/// The same, with an `activate` and a `passivate` that change the resource.
pub(crate) struct Awaited;

impl AsyncResourceFactory for Awaited {
    type Resource = u64;
    type Metadata = u64;
    type Error = Infallible;
    async fn create(&self, _: &u64) -> Result<u64, Infallible> {
        Ok(0)
    }
    async fn activate(&self, _: &u64, resource: &mut u64) -> Result<(), Infallible> {
        *resource = black_box(*resource);
        Ok(())
    }
    async fn passivate(&self, _: &u64, resource: &mut u64) -> Result<(), Infallible> {
        *resource = black_box(*resource);
        Ok(())
    }
}

impl Blocking for ResourcePool<Free> {
    type Guard<'a> = Borrowed<'a, Free>;
    fn of(size: usize) -> Self {
        ResourcePool::builder(Free, 0).max_active(size).build().expect("valid options")
    }
    fn borrow(&self) -> Self::Guard<'_> {
        ResourcePool::borrow(self).expect("a resource costs nothing")
    }
}

pub(crate) struct Barging(ResourcePool<Free>);

impl Blocking for Barging {
    type Guard<'a> = Borrowed<'a, Free>;
    fn of(size: usize) -> Self {
        let pool = ResourcePool::builder(Free, 0).max_active(size).fair(false).build();
        Barging(pool.expect("valid options"))
    }
    fn borrow(&self) -> Self::Guard<'_> {
        self.0.borrow().expect("a resource costs nothing")
    }
}

/// Resources are evicted when they have been idle for too long, and replaced when they are too old.
pub(crate) struct Timed(ResourcePool<Free>);

impl Blocking for Timed {
    type Guard<'a> = Borrowed<'a, Free>;
    fn of(size: usize) -> Self {
        let hour = Duration::from_secs(3600);
        let pool = ResourcePool::builder(Free, 0).max_active(size);
        let pool = pool.max_idle_time(hour).max_lifetime(hour).build();
        Timed(pool.expect("valid options"))
    }
    fn borrow(&self) -> Self::Guard<'_> {
        self.0.borrow().expect("a resource costs nothing")
    }
}

impl Blocking for KeyedResourcePool<u64, Free> {
    type Guard<'a> = Borrowed<'a, Free>;
    fn of(size: usize) -> Self {
        KeyedResourcePool::builder(Free).max_active(size).build().expect("valid options")
    }
    fn borrow(&self) -> Self::Guard<'_> {
        KeyedResourcePool::borrow(self, &7).expect("a resource costs nothing")
    }
}

impl Asynchronous for ResourcePool<Async<Awaited>> {
    type Guard<'a> = Borrowed<'a, Async<Awaited>>;
    type Error = BorrowError<Infallible>;
    async fn of(size: usize) -> Self {
        let pool = ResourcePool::builder(Async(Awaited), 0).max_active(size);
        pool.build_async().expect("valid options")
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.borrow_async()
    }
}

impl Asynchronous for ResourcePool<Async<Free>> {
    type Guard<'a> = Borrowed<'a, Async<Free>>;
    type Error = BorrowError<Infallible>;
    async fn of(size: usize) -> Self {
        let pool = ResourcePool::builder(Async(Free), 0).max_active(size);
        pool.build_async().expect("valid options")
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.borrow_async()
    }
}

pub(crate) struct BargingTasks(ResourcePool<Async<Free>>);

impl Asynchronous for BargingTasks {
    type Guard<'a> = Borrowed<'a, Async<Free>>;
    type Error = BorrowError<Infallible>;
    async fn of(size: usize) -> Self {
        let pool = ResourcePool::builder(Async(Free), 0).max_active(size).fair(false);
        BargingTasks(pool.build_async().expect("valid options"))
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.0.borrow_async()
    }
}

impl r2d2::ManageConnection for Free {
    type Connection = u64;
    type Error = Infallible;
    fn connect(&self) -> Result<u64, Infallible> {
        Ok(0)
    }
    fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }
    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

impl Blocking for r2d2::Pool<Free> {
    type Guard<'a> = r2d2::PooledConnection<Free>;
    fn of(size: usize) -> Self {
        r2d2::Pool::builder()
            .max_size(size as u32)
            // Otherwise each `get` checks for each borrowed connection whether it must be replaced.
            .min_idle(Some(0))
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .build(Free)
            .expect("as many as it wants")
    }
    fn borrow(&self) -> Self::Guard<'_> {
        self.get().expect("one is returned in time")
    }
}

impl deadpool::managed::Manager for Free {
    type Type = u64;
    type Error = Infallible;
    async fn create(&self) -> Result<u64, Infallible> {
        Ok(0)
    }
    async fn recycle(
        &self,
        _: &mut u64,
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Infallible> {
        Ok(())
    }
}

impl Asynchronous for deadpool::managed::Pool<Free> {
    type Guard<'a> = deadpool::managed::Object<Free>;
    type Error = deadpool::managed::PoolError<Infallible>;
    async fn of(size: usize) -> Self {
        deadpool::managed::Pool::builder(Free).max_size(size).build().expect("no timeouts")
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.get()
    }
}

impl Asynchronous for deadpool::unmanaged::Pool<u64> {
    type Guard<'a> = deadpool::unmanaged::Object<u64>;
    type Error = deadpool::unmanaged::PoolError;
    async fn of(size: usize) -> Self {
        Self::from((0..size as u64).collect::<Vec<_>>())
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.get()
    }
}

impl bb8::ManageConnection for Free {
    type Connection = u64;
    type Error = Infallible;
    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(0)
    }
    async fn is_valid(&self, _: &mut u64) -> Result<(), Infallible> {
        Ok(())
    }
    fn has_broken(&self, _: &mut u64) -> bool {
        false
    }
}

impl Asynchronous for bb8::Pool<Free> {
    type Guard<'a> = bb8::PooledConnection<'a, Free>;
    type Error = bb8::RunError<Infallible>;
    async fn of(size: usize) -> Self {
        bb8::Pool::builder()
            .max_size(size as u32)
            .min_idle(size as u32)
            .test_on_check_out(false)
            .max_lifetime(None)
            .idle_timeout(None)
            .build(Free)
            .await
            .expect("as many as it wants")
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.get()
    }
}

#[mobc::async_trait]
impl mobc::Manager for Free {
    type Connection = u64;
    type Error = Infallible;
    async fn connect(&self) -> Result<u64, Infallible> {
        Ok(0)
    }
    async fn check(&self, resource: u64) -> Result<u64, Infallible> {
        Ok(resource)
    }
}

impl Asynchronous for mobc::Pool<Free> {
    type Guard<'a> = mobc::Connection<Free>;
    type Error = mobc::Error<Infallible>;
    async fn of(size: usize) -> Self {
        mobc::Pool::builder()
            .max_open(size as u64)
            .max_idle(size as u64)
            .test_on_check_out(false)
            .get_timeout(None)
            .build(Free)
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.get()
    }
}

impl asyncband::pool::ManageObject for Free {
    type Object = u64;
    type Error = Infallible;
    async fn create(&self) -> Result<u64, Infallible> {
        Ok(0)
    }
    async fn is_recyclable(
        &self,
        _: &mut u64,
        _: &asyncband::pool::ObjectStatus,
    ) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Asynchronous for Arc<asyncband::pool::bounded::Pool<Free>> {
    type Guard<'a> = asyncband::pool::bounded::Object<Free>;
    type Error = Infallible;
    async fn of(size: usize) -> Self {
        asyncband::pool::bounded::Pool::new(asyncband::pool::bounded::PoolConfig::new(size), Free)
    }
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>> {
        self.get()
    }
}
