//! The pools, each behind its own manager trait. All of them test a connection before they lend it.

use crate::server::{Connection, Refused, Server};
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, AsyncResourcePool, Borrowed, ResourceFactory, ResourcePool,
};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A pool that threads use.
pub(crate) trait Threads: Send + Sync + Sized + 'static {
    type Lent<'a>: Deref<Target = Connection> + Send;
    fn open(server: &Arc<Server>, size: usize) -> Self;
    /// Borrows within this time.
    fn borrow(&self, patience: Duration) -> Option<Self::Lent<'_>>;
}

/// A pool that tasks use.
pub(crate) trait Tasks: Send + Sync + Sized + 'static {
    type Lent<'a>: Deref<Target = Connection> + Send;
    fn open(server: &Arc<Server>, size: usize) -> impl Future<Output = Self>;
    fn borrow(&self) -> impl Future<Output = Option<Self::Lent<'_>>> + Send;
}

/// Connects, for each of the pools.
pub(crate) struct Manager(Arc<Server>);

impl ResourceFactory for Manager {
    type Resource = Connection;
    type Metadata = ();
    type Error = Refused;
    fn create(&self, (): &()) -> Result<Connection, Refused> {
        self.0.connect()
    }
    fn validate(&self, (): &(), connection: &mut Connection) -> bool {
        connection.is_alive()
    }
}

impl Threads for ResourcePool<Manager> {
    type Lent<'a> = Borrowed<'a, Manager>;
    fn open(server: &Arc<Server>, size: usize) -> Self {
        let pool = ResourcePool::builder(Manager(server.clone()), ()).max_total(size);
        pool.test_on_borrow(true).build().expect("valid options")
    }
    fn borrow(&self, patience: Duration) -> Option<Self::Lent<'_>> {
        self.borrow_timeout(patience).ok()
    }
}

impl AsyncResourceFactory for Manager {
    type Resource = Connection;
    type Metadata = ();
    type Error = Refused;
    async fn create(&self, (): &()) -> Result<Connection, Refused> {
        self.0.connect_async().await
    }
    async fn validate(&self, (): &(), connection: &mut Connection) -> bool {
        connection.is_alive()
    }
}

fn cabrank(server: &Arc<Server>, size: usize, fair: bool) -> AsyncResourcePool<Manager> {
    let pool = AsyncResourcePool::builder(Async(Manager(server.clone())), ()).max_total(size);
    let pool = pool.test_on_borrow(true).fair(fair);
    pool.build_on(Tokio::current()).expect("valid options")
}

impl Tasks for AsyncResourcePool<Manager> {
    type Lent<'a> = Borrowed<'a, Async<Manager>>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        cabrank(server, size, true)
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.borrow_async().await.ok()
    }
}

/// A pool without a runtime.
pub(crate) struct WithoutRuntime(AsyncResourcePool<Manager>);

impl Tasks for WithoutRuntime {
    type Lent<'a> = Borrowed<'a, Async<Manager>>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        let pool = AsyncResourcePool::builder(Async(Manager(server.clone())), ()).max_total(size);
        WithoutRuntime(pool.test_on_borrow(true).build_async().expect("valid options"))
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.0.borrow_async().await.ok()
    }
}

pub(crate) struct Barging(AsyncResourcePool<Manager>);

impl Tasks for Barging {
    type Lent<'a> = Borrowed<'a, Async<Manager>>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        Barging(cabrank(server, size, false))
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.0.borrow_async().await.ok()
    }
}

impl r2d2::ManageConnection for Manager {
    type Connection = Connection;
    type Error = Refused;
    fn connect(&self) -> Result<Connection, Refused> {
        self.0.connect()
    }
    fn is_valid(&self, connection: &mut Connection) -> Result<(), Refused> {
        connection.is_alive().then_some(()).ok_or(Refused)
    }
    fn has_broken(&self, connection: &mut Connection) -> bool {
        !connection.is_alive()
    }
}

impl Threads for r2d2::Pool<Manager> {
    type Lent<'a> = r2d2::PooledConnection<Manager>;
    fn open(server: &Arc<Server>, size: usize) -> Self {
        // Otherwise it opens all connections at once.
        let pool = r2d2::Pool::builder().max_size(size as u32).min_idle(Some(0));
        // Otherwise it logs each failed connect.
        let pool = pool.error_handler(Box::new(r2d2::NopErrorHandler));
        pool.build(Manager(server.clone())).expect("valid options")
    }
    fn borrow(&self, patience: Duration) -> Option<Self::Lent<'_>> {
        self.get_timeout(patience).ok()
    }
}

impl deadpool::managed::Manager for Manager {
    type Type = Connection;
    type Error = Refused;
    async fn create(&self) -> Result<Connection, Refused> {
        self.0.connect_async().await
    }
    async fn recycle(
        &self,
        connection: &mut Connection,
        _: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Refused> {
        Ok(connection.is_alive().then_some(()).ok_or(Refused)?)
    }
}

impl Tasks for deadpool::managed::Pool<Manager> {
    type Lent<'a> = deadpool::managed::Object<Manager>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        let pool = deadpool::managed::Pool::builder(Manager(server.clone()));
        pool.max_size(size).build().expect("no timeouts")
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.get().await.ok()
    }
}

impl bb8::ManageConnection for Manager {
    type Connection = Connection;
    type Error = Refused;
    async fn connect(&self) -> Result<Connection, Refused> {
        self.0.connect_async().await
    }
    async fn is_valid(&self, connection: &mut Connection) -> Result<(), Refused> {
        connection.is_alive().then_some(()).ok_or(Refused)
    }
    fn has_broken(&self, connection: &mut Connection) -> bool {
        !connection.is_alive()
    }
}

impl Tasks for bb8::Pool<Manager> {
    type Lent<'a> = bb8::PooledConnection<'a, Manager>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        let pool = bb8::Pool::builder().max_size(size as u32);
        pool.build(Manager(server.clone())).await.expect("it connects when it must")
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.get().await.ok()
    }
}

impl asyncband::pool::ManageObject for Manager {
    type Object = Connection;
    type Error = Refused;
    async fn create(&self) -> Result<Connection, Refused> {
        self.0.connect_async().await
    }
    async fn is_recyclable(
        &self,
        connection: &mut Connection,
        _: &asyncband::pool::ObjectStatus,
    ) -> Result<(), Refused> {
        connection.is_alive().then_some(()).ok_or(Refused)
    }
}

type Asyncband = Arc<asyncband::pool::bounded::Pool<Manager>>;

impl Tasks for Asyncband {
    type Lent<'a> = asyncband::pool::bounded::Object<Manager>;
    async fn open(server: &Arc<Server>, size: usize) -> Self {
        let config = asyncband::pool::bounded::PoolConfig::new(size);
        asyncband::pool::bounded::Pool::new(config, Manager(server.clone()))
    }
    async fn borrow(&self) -> Option<Self::Lent<'_>> {
        self.get().await.ok()
    }
}

/// A pool that tasks use, as threads use it: each of them polls one future at a time, and drops it after its patience.
pub(crate) struct Polled<P>(P);

impl<P: Tasks> Threads for Polled<P> {
    type Lent<'a> = P::Lent<'a>;
    fn open(server: &Arc<Server>, size: usize) -> Self {
        Polled(tokio::runtime::Handle::current().block_on(P::open(server, size)))
    }
    fn borrow(&self, patience: Duration) -> Option<Self::Lent<'_>> {
        let borrow = async { tokio::time::timeout(patience, self.0.borrow()).await.ok().flatten() };
        tokio::runtime::Handle::current().block_on(borrow)
    }
}
